-- Set the locks. A lock that already has our value counts as granted, because an earlier execution
-- of the same call has set it.
local each = (#ARGV - 3) / count
local names, owners = #KEYS - count, 3 - each
local results, numbers = {}, {}
for i = 1, count do
  local name, owner = KEYS[names + i], ARGV[owners + each * i]
  local set = call('SET', name, owner, 'NX', 'PX', lease)
  local found = not set and call('GET', name)
  if set then
    results[i] = set.err and 'E' or '1'
  elseif found == owner then
    call('PEXPIRE', name, lease)
    results[i] = '1'
  else
    results[i] = type(found) == 'table' and 'E' or '0'
  end
end
