-- Whether this holder has the lock already, by another grant. For holder 0 the answer is no.
local function holds(name, holder)
  if holder:sub(-2) == ':0' then return false end
  for _, member in ipairs(redis.call('ZRANGE', name, 0, -1)) do
    if member:find(holder .. ':', 1, true) == 1 then return true end
  end
  return false
end
