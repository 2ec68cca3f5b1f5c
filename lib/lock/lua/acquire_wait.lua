-- As acquire; a caller that finds the lock busy and will wait sets the waiting key for as long as it
-- waits. A release publishes only if that key exists, so locks without waiters do not pay for it.
local wait = 0
for i = 1, count do
  results[i] = try_to_set(KEYS[i + 2], ARGV[2 * i + 1])
  numbers[i] = fence + i
  if results[i] == '0' then
    numbers[i] = call('PTTL', KEYS[i + 2])
    wait = math.max(wait, ARGV[2 * i + 2])
  end
end
if wait > math.max(0, redis.call('PTTL', KEYS[2])) then
  redis.call('SET', KEYS[2], '', 'PX', wait)
end
return {ARGV[#ARGV], clock, fence, table.concat(results), numbers}
