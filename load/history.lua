-- history.lua - a script for wrk: sends the requests of a plan, and logs each request and its
-- answer.
--
--   wrk -s load/history.lua URL -- tokens=FILE place=DIR pace_ms=N
--
-- FILE has one token per line: the token of the admin, then those of the shoppers 1, 2 and so on.
-- Thread K of wrk reads DIR/plan.K, which has one request per line, and sends them in this order:
--
--   order SHOPPER VOUCHER KEY FOLLOW   POST /v1/vouchers/VOUCHER/orders; KEY "-": no key.
--                                      FOLLOW says what happens next:
--       again    repeat the order after its answer
--       twice    send the order on two connections at once, then repeat it
--       cancel   cancel the placed order by two requests at once
--   restock 0 VOUCHER COUNT -          sent by the admin
--
-- If an order is answered "not started", "in progress" or with a 5xx, it is repeated after
-- RETRY_MS, as a client would do. DIR/history.K gets these lines, in order of time. Times are us
-- since 1970. "-" means that there is no value.
--
--   > NUMBER TIME OP SHOPPER VOUCHER ARG    before a request is sent; ARG is the key, the
--                                           order to cancel, or the count
--   < NUMBER TIME STATUS CODE ORDER         after an answer was read
--
-- wrk does not tell response() on which connection an answer came. So each request has its number
-- in X-Request-Id, which the service and nginx return. An answer without this header is logged with
-- the number 0, which the checker reports. If a connection broke, its request has no "<" line.
--
-- The plan ends early if there is a file DIR/stop. At the end of its plan, a
-- thread waits for missing answers until none has arrived for GIVE_UP_US. Then it creates the file
-- DIR/done.K. wrk runs until it is interrupted.

local ffi = require("ffi")
ffi.cdef [[
typedef struct { long s, ns; } proof_time;
int clock_gettime(int clock, proof_time *ret_time);
]]

local RETRY_MS = 150
local IDLE_MS = 20
local GIVE_UP_US = 6e6
local STOP_EVERY = 50 -- after so many requests DIR/stop is looked for
local IDLE_REQUEST = "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Request-Id: idle\r\n\r\n"

local threads = 0

function setup(thread)
    thread:set("number", threads)
    threads = threads + 1
end

local clock = ffi.new("proof_time")

local function now_us()
    ffi.C.clock_gettime(0, clock)
    return tonumber(clock.s) * 1000000 + math.floor(tonumber(clock.ns) / 1000)
end

local place, pace_ms, history
local tokens = {}
local plan = {}
local planned = 0 -- how many requests of the plan were sent
local again = {} -- the requests to repeat, with their times
local first_again, last_again = 1, 0
local sent = {} -- unanswered requests by number
local sent_count, missing = 0, 0
local last_us = 0
local was_called = false -- wrk discards the first request
local is_done = false

function init(args)
    local options = {}
    for _, arg in ipairs(args) do
        local name, value = arg:match("^([%w_]+)=(.*)$")
        options[name] = value
    end
    place, pace_ms = options.place, tonumber(options.pace_ms)
    local shopper = 0
    for token in io.lines(options.tokens) do
        tokens[shopper] = token
        shopper = shopper + 1
    end
    for line in io.lines(place .. "/plan." .. number) do
        local op, shopper, voucher, arg, follow = line:match("^(%S+) (%S+) (%S+) (%S+) (%S+)$")
        plan[#plan + 1] = {op = op, shopper = tonumber(shopper), voucher = voucher, arg = arg,
            follow = follow}
    end
    history = io.open(place .. "/history." .. number, "w")
    history:setvbuf("full", 1048576)
end

local function repeat_later(item, delay_ms)
    last_again = last_again + 1
    again[last_again] = {item = item, due_us = now_us() + delay_ms * 1000}
end

local function next_item(time_us)
    local first = again[first_again]
    if first and first.due_us <= time_us then
        again[first_again] = nil
        first_again = first_again + 1
        return first.item
    end
    if planned % STOP_EVERY == 0 and io.open(place .. "/stop") then
        planned = #plan
    end
    planned = planned + 1
    return plan[planned]
end

local function is_idle()
    return planned >= #plan and first_again > last_again
end

-- Called by wrk before each request: how many ms to wait.
function delay()
    return is_idle() and IDLE_MS or pace_ms
end

local function finish_if_done(time_us)
    if not is_done and is_idle() and (missing == 0 or time_us - last_us > GIVE_UP_US) then
        is_done = true
        history:flush()
        io.open(place .. "/done." .. number, "w"):close()
    end
end

local function copy(item)
    return {op = item.op, shopper = item.shopper, voucher = item.voucher, arg = item.arg}
end

local function print_request(item, id)
    local path, body, head = "/v1/vouchers/" .. item.voucher .. "/orders", "", ""
    if item.op == "restock" then
        path = "/v1/vouchers/" .. item.voucher .. "/restock"
        body = '{"add":' .. item.arg .. "}"
        head = "Content-Type: application/json\r\n"
    elseif item.op == "cancel" then
        path = "/v1/orders/" .. item.arg .. "/cancel"
    elseif item.arg ~= "-" then
        head = "Idempotency-Key: " .. item.arg .. "\r\n"
    end
    return "POST " .. path .. " HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer " ..
        tokens[item.shopper] .. "\r\nX-Request-Id: " .. id .. "\r\n" .. head ..
        "Content-Length: " .. #body .. "\r\n\r\n" .. body
end

function request()
    local time_us = now_us()
    local item = was_called and next_item(time_us)
    was_called = true
    if not item then
        finish_if_done(time_us)
        return IDLE_REQUEST
    end
    if item.follow == "twice" then
        item.follow = "again"
        repeat_later(copy(item), 0) -- on the next connection
    end
    sent_count, missing, last_us = sent_count + 1, missing + 1, time_us
    sent[sent_count] = item
    history:write(string.format("> %d %d %s %d %s %s\n", sent_count, time_us, item.op,
        item.shopper, item.voucher, item.arg))
    return print_request(item, number .. "." .. sent_count)
end

local function follow_up(item, status, code, order)
    if status >= 500 or code == "order_in_progress" or code == "not_started" then
        repeat_later(item, RETRY_MS)
    elseif item.follow == "again" then
        repeat_later(copy(item), 0)
    elseif item.follow == "cancel" and status == 201 then
        local cancel = {op = "cancel", shopper = item.shopper, voucher = item.voucher, arg = order}
        repeat_later(cancel, 0)
        repeat_later(cancel, 0)
    end
end

function response(status, headers, body)
    local time_us = now_us()
    local header = headers["X-Request-Id"] or ""
    if header == "idle" then
        return
    end
    local thread, id = header:match("^(%d+)%.(%d+)$")
    id = tonumber(thread) == number and tonumber(id) or 0
    local code = body:match('"code": ?"([%w_]+)"') or "-"
    local order = body:match('"order_id": ?"(%d+)"') or body:match('^{"id": ?"(%d+)"') or "-"
    history:write(string.format("< %d %d %d %s %s\n", id, time_us, status, code, order))
    local item = sent[id]
    if item then
        sent[id] = nil
        missing, last_us = missing - 1, time_us
        follow_up(item, status, code, order)
    end
end
