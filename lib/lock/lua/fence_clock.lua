-- Begins a script that uses the fence counter. Fences follow the clock in microseconds. A greater
-- number than `most` was not drawn: somebody set the counter, or the clock was wrong. A hundred
-- years leave room for a clock that was set back, to 1970 at the worst.
local now = redis.call('TIME')
local clock = now[1] * 1000000 + now[2]
local most = math.min(clock + 3.2e15, 9e15) -- Lua counts exactly up to 2^53
