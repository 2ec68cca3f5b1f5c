-- Finds out which of the names KEYS[first] to KEYS[#KEYS] are free. Most often none is free, so one
-- EXISTS of all names comes first. If `first` is 2, KEYS[1] is the waiting key. It is set again
-- when a third of its lifetime is over.
if first == 2 and redis.call('PTTL', KEYS[1]) < wait * 2 / 3 then
  redis.call('SET', KEYS[1], '', 'PX', wait)
end
local results = {}
if redis.call('EXISTS', unpack(KEYS, first)) == #KEYS - first + 1 then
  return ARGV[#ARGV] .. ' ' .. ('0'):rep(#KEYS - first + 1)
end
for i = first, #KEYS do results[i - first + 1] = 1 - redis.call('EXISTS', KEYS[i]) end
return ARGV[#ARGV] .. ' ' .. table.concat(results)
