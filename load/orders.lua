-- orders.lua - the one wrk script: POST /v1/vouchers/{id}/orders, the same bytes whether
-- the service or nginx is asked.
--
--   wrk -s load/orders.lua URL -- threads=T tokens=FILE vouchers=ID[,ID...]
--       [keys=PREFIX] [count=N]
--
-- Line n of FILE is the token of one shopper; each of the T threads (wrk -tT: a thread is not
-- told how many there are) takes its own share of the first `count` lines. With several
-- vouchers each request is for one at random; one that stands there twice is met twice as
-- often. With `keys` each request carries an Idempotency-Key of its own, beginning so.
--
-- All requests are made before the clock starts: while it runs, one costs a look into an
-- array. There is no response() on purpose, as it makes wrk copy every header and body.
-- wrk itself counts the answers from 400 on.
--
-- wrk starts each thread as soon as that is made, and its clock with the last: while that
-- still makes its requests, a second for half a million, the others would be answered for
-- nothing. So all wait at their first request until the last is ready, at a gate in memory
-- that is no thread's own.
--
-- Where PORTS=PORT[,PORT...] stands in the environment, the threads ask these in turn instead
-- of the URL's: a thread each of several instances. (Options come too late for that.)

local ffi = require("ffi")
ffi.cdef("void *calloc(size_t count, size_t size); int usleep(unsigned us);")
local GATE_LOOK_US = 200

local all = {}
local ports = {}
for port in (os.getenv("PORTS") or ""):gmatch("%d+") do
    table.insert(ports, port)
end
local shared

function setup(thread)
    shared = shared or tonumber(ffi.cast("uintptr_t", ffi.C.calloc(1, 4)))
    thread:set("gate_address", shared)
    thread:set("share", #all)
    if #ports > 0 then
        thread.addr = wrk.lookup(wrk.host, ports[#all % #ports + 1])[1]
    end
    table.insert(all, thread)
end

local function read_options(args)
    local options = {}
    for _, arg in ipairs(args) do
        local name, value = arg:match("^(%w+)=(.*)$")
        options[name] = value
    end
    return options
end

local function read_vouchers(list)
    local vouchers = {}
    for id in list:gmatch("%d+") do
        table.insert(vouchers, id)
    end
    return vouchers
end

local requests = {}
local position = 0
local gate, shares -- so many threads are ready, of so many

function init(args)
    local options = read_options(args)
    local vouchers = read_vouchers(options.vouchers)
    local limit = tonumber(options.count) or math.huge
    local number = 0

    shares = tonumber(options.threads)
    math.randomseed(share + 1)
    for token in io.lines(options.tokens) do
        number = number + 1
        if number > limit then
            break
        end
        if number % shares == share then
            local key = ""
            if options.keys then
                key = "Idempotency-Key: " .. options.keys .. number .. "\r\n"
            end
            requests[#requests + 1] = "POST /v1/vouchers/" .. vouchers[math.random(#vouchers)] ..
                "/orders HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer " .. token ..
                "\r\n" .. key .. "Content-Length: 0\r\n\r\n"
        end
    end
    gate = ffi.cast("volatile int32_t *", gate_address)
    gate[0] = gate[0] + 1 -- one after the other, in the thread that makes them all
    ready_cpu_s = os.clock()
end

local function wait_at_gate()
    while gate[0] < shares do
        ffi.C.usleep(GATE_LOOK_US)
    end
end

-- The first one of thread 0 is not sent: wrk has a look at it before any thread runs.
function request()
    position = position + 1
    if position == (share == 0 and 2 or 1) then
        wait_at_gate()
    end
    if position > #requests then
        position = 1
    end
    return requests[position]
end

function done(summary, latency, _)
    local errors = summary.errors
    local before_s = 0

    for _, thread in ipairs(all) do
        before_s = math.max(before_s, thread:get("ready_cpu_s"))
    end
    io.write(string.format(
        '\n{"requests": %d, "refused": %d, "broken": %d, "seconds": %.6f, ' ..
        '"p50_us": %d, "p99_us": %d, "max_us": %d, "cpu_s": %.6f}\n',
        summary.requests, errors.status, errors.connect + errors.read + errors.write + errors.timeout,
        summary.duration / 1e6, latency:percentile(50), latency:percentile(99), latency.max,
        os.clock() - before_s))
end
