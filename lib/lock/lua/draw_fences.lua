-- Begins a script that acquires `count` locks. KEYS[1] is the fence counter, ARGV[1] the lease in
-- ms, ARGV[2] the latest time of execution.
--
-- If a server that hung executed a call after the caller had given up, it would lock names without
-- an owner. Therefore a call names the latest time, by the clock of the server, at which it may be
-- executed. The client learns this clock from each reply.
--
-- Fences come from one counter. The counter is increased by the number of locks before any lock is
-- set, so nothing has changed if the increase is refused. The fence of lock i is the returned
-- number plus i; the fences of busy locks are not used. A missing counter starts at the clock in
-- microseconds. This is more than any earlier counter can have reached, so fences keep growing
-- after the server lost its data. A counter that is not a number, is below zero or is too great is
-- restarted at the clock, too. In these cases the returned number is equal to the clock. A key of
-- another type belongs to another program and is not changed.
if clock > ARGV[2] + 0 then return {ARGV[#ARGV], clock} end
local fence = redis.pcall('INCRBY', KEYS[1], count)
local why = type(fence) == 'table' and fence.err
if why and why:find('WRONGTYPE', 1, true) then
  return redis.error_reply('WRONGTYPE the key holds no fence counter: ' .. KEYS[1])
elseif why and not why:find('not an integer', 1, true) and not why:find('overflow', 1, true) then
  return fence
elseif why or fence <= count or fence > most then
  fence = clock + count
  if fence > most then return redis.error_reply('ERR the clock of the server is wrong') end
  redis.call('SET', KEYS[1], string.format('%.0f', fence))
end
fence = fence - count
local call, lease = redis.pcall, ARGV[1]
