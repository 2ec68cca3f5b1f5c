-- orders.lua - the one wrk script: POST /v1/vouchers/{id}/orders, the same bytes whether
-- the service or nginx is asked.
--
--   wrk -s load/orders.lua URL -- threads=T tokens=FILE vouchers=ID[,ID...]
--       [keys=PREFIX] [count=N]
--
-- Line n of FILE is the token of one shopper; each of the T threads (wrk -tT: a thread is not
-- told how many there are) takes its own share of the first `count` lines. With several vouchers each request is for one at random. With `keys` each
-- request carries an Idempotency-Key of its own, beginning so.
--
-- All requests are made before the clock starts: while it runs, one costs a look into an
-- array. There is no response() on purpose, as it makes wrk copy every header and body.
-- wrk itself counts the answers from 400 on.

-- Where PORTS=PORT[,PORT...] stands in the environment, the threads ask these in turn instead
-- of the URL's: a thread each of several instances. (Options come too late for that.)

local threads = 0
local ports = {}
for port in (os.getenv("PORTS") or ""):gmatch("%d+") do
    table.insert(ports, port)
end

function setup(thread)
    thread:set("share", threads)
    if #ports > 0 then
        thread.addr = wrk.lookup(wrk.host, ports[threads % #ports + 1])[1]
    end
    threads = threads + 1
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

function init(args)
    local options = read_options(args)
    local vouchers = read_vouchers(options.vouchers)
    local limit = tonumber(options.count) or math.huge
    local shares = tonumber(options.threads)
    local number = 0

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
end

function request()
    position = position + 1
    if position > #requests then
        position = 1
    end
    return requests[position]
end

function done(summary, latency, _)
    local errors = summary.errors
    io.write(string.format(
        '\n{"requests": %d, "refused": %d, "broken": %d, "seconds": %.6f, ' ..
        '"p50_us": %d, "p99_us": %d, "max_us": %d}\n',
        summary.requests, errors.status, errors.connect + errors.read + errors.write + errors.timeout,
        summary.duration / 1e6, latency:percentile(50), latency:percentile(99), latency.max))
end
