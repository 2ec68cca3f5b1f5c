-- history.lua - have wrk play a plan, and write down each request and its answer.
--
--   wrk -s load/history.lua URL -- tokens=FILE place=DIR pace_ms=N
--
-- FILE has the admin's token, then those of shoppers 1, 2, and so on, one a line. Thread K of
-- wrk reads DIR/plan.K, a request a line, to be sent in this order:
--
--   order SHOPPER VOUCHER KEY FOLLOW   POST /v1/vouchers/VOUCHER/orders; KEY "-": without.
--       FOLLOW "again": once more after its answer; "twice": at once on two connections,
--       then again; "cancel": once placed, is cancelled, by two requests at once
--   restock 0 VOUCHER COUNT -          by the admin
--
-- An order that was answered "not started", "in progress", or with a 5xx is asked for again
-- after RETRY_MS, as a client would. What came of it goes to DIR/history.K, in the order in
-- which it was seen, times in us since 1970, "-" for nothing:
--
--   > NUMBER TIME OP SHOPPER VOUCHER ARG    before the request is sent; ARG is the key, the
--                                           order that is cancelled, or the count
--   < NUMBER TIME STATUS CODE ORDER         after the answer was read
--
-- wrk does not tell response() on which connection, so which request it answers is known by
-- X-Request-Id alone: each request carries its number there, and the service and nginx
-- send it back. An answer without is written down with the number 0, and the checker
-- complains of it. A request whose connection broke has no "<".
--
-- The thread's last act, when nothing is left to ask and no answer missing, or missing for
-- PATIENCE_US, is to make DIR/done.K. wrk itself runs on until it is interrupted.

local ffi = require("ffi")
ffi.cdef [[
typedef struct { long s, ns; } proof_time;
int clock_gettime(int clock, proof_time *ret_time);
]]

local RETRY_MS = 150
local IDLE_MS = 20
local PATIENCE_US = 6e6
local NOTHING = "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Request-Id: nothing\r\n\r\n"

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
local planned = 0 -- of the plan, what was taken
local again = {} -- what is to be asked once more, and from when on
local first_again, last_again = 1, 0
local asked = {} -- by number, until answered
local asked_count, missing = 0, 0
local last_us = 0
local was_tried = false -- wrk asks for one request that it does not send
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

local function ask_later(item, delay_ms)
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
    planned = planned + 1
    return plan[planned]
end

local function is_idle()
    return planned >= #plan and first_again > last_again
end

-- wrk asks before each request how long to wait with it.
function delay()
    return is_idle() and IDLE_MS or pace_ms
end

local function finish_if_done(time_us)
    if not is_done and is_idle() and (missing == 0 or time_us - last_us > PATIENCE_US) then
        is_done = true
        history:flush()
        io.open(place .. "/done." .. number, "w"):close()
    end
end

local function same(item)
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
    local item = was_tried and next_item(time_us)
    was_tried = true
    if not item then
        finish_if_done(time_us)
        return NOTHING
    end
    if item.follow == "twice" then
        item.follow = "again"
        ask_later(same(item), 0) -- to the next connection
    end
    asked_count, missing, last_us = asked_count + 1, missing + 1, time_us
    asked[asked_count] = item
    history:write(string.format("> %d %d %s %d %s %s\n", asked_count, time_us, item.op,
        item.shopper, item.voucher, item.arg))
    return print_request(item, number .. "." .. asked_count)
end

local function follow_up(item, status, code, order)
    if status >= 500 or code == "order_in_progress" or code == "not_started" then
        ask_later(item, RETRY_MS)
    elseif item.follow == "again" then
        ask_later(same(item), 0)
    elseif item.follow == "cancel" and status == 201 then
        local cancel = {op = "cancel", shopper = item.shopper, voucher = item.voucher, arg = order}
        ask_later(cancel, 0)
        ask_later(cancel, 0)
    end
end

function response(status, headers, body)
    local time_us = now_us()
    local header = headers["X-Request-Id"] or ""
    if header == "nothing" then
        return
    end
    local thread, id = header:match("^(%d+)%.(%d+)$")
    id = tonumber(thread) == number and tonumber(id) or 0
    local code = body:match('"code": ?"([%w_]+)"') or "-"
    local order = body:match('"order_id": ?"(%d+)"') or body:match('^{"id": ?"(%d+)"') or "-"
    history:write(string.format("< %d %d %d %s %s\n", id, time_us, status, code, order))
    local item = asked[id]
    if item then
        asked[id] = nil
        missing, last_us = missing - 1, time_us
        follow_up(item, status, code, order)
    end
end
