-- orders.lua - a script for wrk: sends POST /v1/vouchers/{id}/orders, the same bytes to the service
-- and to nginx.
--
--   wrk -s load/orders.lua URL -- threads=T tokens=FILE vouchers=ID[,ID...]
--       [keys=PREFIX] [count=N]
--
-- Line n of FILE is the token of one shopper. Each of the T threads takes a share of the first
-- `count` lines. wrk does not tell the script its option -t, so T must be given here, too. If there
-- are several vouchers, each request takes one at random; an id that is listed twice is taken twice
-- as often. With `keys` each request has its own Idempotency-Key, which begins with PREFIX.
--
-- All requests are created before the measurement, so that during it a request costs only a table
-- look-up. The script has no response(), because then wrk would copy every header and body. wrk
-- itself counts the answers with a status of 400 or more.
--
-- wrk starts each thread as soon as it has created it, but starts its clock with the last thread.
-- To create half a million requests takes a second, so the first thread would get answers before
-- the clock starts. Therefore each thread waits at its first request until all threads are ready,
-- by a counter in shared memory.
--
-- PORTS=PORT[,PORT...] in the environment replaces the port of the URL. The threads use these ports
-- in turn, for example the ports of several instances. (The options are read too late for this.)

local ffi = require("ffi")
ffi.cdef("void *calloc(size_t count, size_t size); int usleep(unsigned us);")
local GATE_POLL_US = 200

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
local gate, shares -- how many threads are ready, and how many there are

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
    gate[0] = gate[0] + 1 -- wrk calls init() for one thread after the other
    ready_cpu_s = os.clock()
end

local function wait_at_gate()
    while gate[0] < shares do
        ffi.C.usleep(GATE_POLL_US)
    end
end

-- wrk calls this once for thread 0 before any thread runs, and does not send the result.
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
