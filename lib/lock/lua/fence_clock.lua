-- Begins a script that uses the fence counter. The counter starts at the clock in microseconds and
-- grows more slowly than the clock. If it is above `most`, which is a hundred years ahead, another
-- program has set it, or the clock was wrong. A hundred years are enough for a clock that was set
-- back to 1970.
local now = redis.call('TIME')
local clock = now[1] * 1000000 + now[2]
local most = math.min(clock + 3.2e15, 9e15) -- Lua counts exactly up to 2^53
