-- Like acquire.lua, for callers that wait if a lock is busy. The script then sets the waiting key
-- for the longest time that a caller will wait. All locks on this server share the waiting key. A
-- release publishes a message only while this key exists, so releases cost no message while nobody
-- waits. For each lock of a cohort, ARGV has a third word after the owner and the wait: how often
-- the lock may be passed on. If such a lock is granted, the script draws passes + 1 more fences for
-- it, so the fences of its owners are consecutive.
local all, wait, last = table.concat(results), 0, fence + count
if each == 2 and not all:find('0', 1, true) then return {ARGV[#ARGV], clock, fence, all} end
for i = 1, count do
  local at = owners + each * i
  local passes = each > 2 and ARGV[at + 2] + 0 or 0
  numbers[i] = fence + i
  if results[i] == '0' then
    numbers[i] = call('PTTL', KEYS[i + 2])
    wait = math.max(wait, ARGV[at + 1])
  elseif results[i] == '1' and passes > 0 then
    numbers[i] = last + 1
    last = last + 1 + passes
  end
end
if last > fence + count then redis.call('INCRBY', KEYS[1], last - fence - count) end
if wait > 0 and wait > redis.call('PTTL', KEYS[2]) then
  redis.call('SET', KEYS[2], '', 'PX', wait)
end
return {ARGV[#ARGV], clock, fence, all, numbers}
