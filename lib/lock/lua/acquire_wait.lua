-- Like acquire.lua. A caller that finds the lock busy and will wait sets the waiting key for as
-- long as it waits. A release publishes only if that key exists, so locks without waiters do not
-- pay for a message. A lock of a cohort has a third argument, the number of passes. Its grant takes
-- several fences in a row, after the fences of the batch: one for itself and one for each pass.
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
