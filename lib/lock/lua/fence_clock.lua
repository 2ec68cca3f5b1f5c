-- Begins a script that uses the fence counter. The counter starts at the clock in microseconds and
-- grows more slowly. If it exceeds `most`, a hundred years ahead, somebody has set it, or the clock
-- was wrong. The hundred years allow for a clock that was set back, at worst to 1970.
local now = redis.call('TIME')
local clock = now[1] * 1000000 + now[2]
local most = math.min(clock + 3.2e15, 9e15) -- Lua counts exactly up to 2^53
