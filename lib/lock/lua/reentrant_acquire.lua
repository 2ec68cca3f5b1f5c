-- The hash is the {holder: count} of Redisson. It also has a field "holder:serial" for each of our
-- grants, so that a grant is counted once and released once even if a call is repeated, and a field
-- "holder:fence". Redisson reads its own field only.
local function set(name, holder, grant, number)
  call('HSET', name, holder .. ':fence', string.format('%.0f', number), grant, 1, holder, 1)
  call('PEXPIRE', name, lease)
end
-- The most frequent call acquires one free lock.
if count == 1 and not held[1] then
  set(KEYS[2], ARGV[3], ARGV[3] .. ':' .. ARGV[4], fence + 1)
  return {ARGV[#ARGV], clock, fence, '1'}
end
local results, numbers = {}, {}
for i = 1, count do
  local name, at = KEYS[i + 1], 2 * i + 1
  local holder = ARGV[at]
  local grant = holder .. ':' .. ARGV[at + 1]
  if i > 1 then held[i], left[i] = look(i) end -- the same name may be in the batch twice
  numbers[i] = fence + i
  if type(held[i]) == 'table' then
    results[i] = 'E'
  elseif left[i] == -2 then
    set(name, holder, grant, fence + i)
    results[i] = '1'
  elseif held[i] then
    numbers[i] = tonumber(call('HGET', name, holder .. ':fence')) or fence + i
    if call('HSETNX', name, grant, 1) == 1 then call('HINCRBY', name, holder, 1) end
    if left[i] < lease + 0 then call('PEXPIRE', name, lease) end
    results[i] = '1'
  else
    results[i] = '0'
    numbers[i] = left[i]
  end
end
return {ARGV[#ARGV], clock, fence, table.concat(results), numbers}
