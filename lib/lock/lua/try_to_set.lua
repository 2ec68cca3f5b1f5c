-- Set a lock. A lock that has our value is a grant: the call has been executed before.
local function try_to_set(name, owner)
  local set = call('SET', name, owner, 'NX', 'PX', lease)
  local found = not set and call('GET', name)
  if set then return set.err and 'E' or '1' end
  if type(found) == 'table' then return 'E' end
  if found ~= owner then return '0' end
  call('PEXPIRE', name, lease)
  return '1'
end
