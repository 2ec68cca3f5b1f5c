-- Begins a script that acquires `count` locks. KEYS[1] is the fence counter; ARGV: the lease in ms,
-- the latest time of execution.
--
-- If a server that hung executed a call after the caller had given up, it would lock names without
-- an owner. Therefore a call names the latest time, on the clock of the server, at which it may be
-- executed; the client learns that clock from each reply.
--
-- Fences come from one counter. It is increased by the number of locks before any lock is set, so
-- nothing has changed if that is refused. The fence of lock i is the returned number plus i, with
-- gaps for busy locks. A missing counter starts at the clock in microseconds, which is more than any
-- earlier counter can have reached, so fences keep growing after the server lost its data.
local now = redis.call('TIME')
local clock = now[1] * 1000000 + now[2]
if clock > ARGV[2] + 0 then return {ARGV[#ARGV], clock} end
local fence = redis.call('INCRBY', KEYS[1], count)
if fence > 9e15 then
  return redis.error_reply('ERR the fence key holds no fence counter')
end
if fence == count then
  fence = clock + count
  redis.call('SET', KEYS[1], string.format('%.0f', fence))
end
fence = fence - count
local call, lease, results, numbers = redis.pcall, ARGV[1], {}, {}
