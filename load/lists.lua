-- lists.lua - a script for wrk: GET /v1/vouchers, a page of a hundred vouchers.
--
--   wrk -s load/lists.lua URL -- same|different
--
-- same: all requests ask for the same page. different: each request asks for another page, so no two
-- requests can share a query of the database.

local threads = 0
local number, pages = 0, nil

function setup(thread)
    threads = threads + 1
    thread:set("share", threads)
end

function init(args)
    pages = args[1]
end

function request()
    local query = "?limit=100"
    if pages == "different" then
        number = number + 1
        query = query .. "&cursor=0_" .. (share * 1e9 + number)
    end
    return wrk.format("GET", "/v1/vouchers" .. query)
end

function done(summary, latency, _)
    local errors = summary.errors
    io.write(string.format('\n{"answered": %d, "refused": %d, "broken": %d, "p50_ms": %d, "max_ms": %d}\n',
        summary.requests, errors.status, errors.connect + errors.read + errors.write + errors.timeout,
        latency:percentile(50) / 1000, latency.max / 1000))
end
