-- Whether this holder already has the lock by another grant. For holder 0 the answer is no.
local function holds(name, holder)
  if holder:sub(-2) == ':0' then return false end
  for _, member in ipairs(redis.call('ZRANGE', name, 0, -1)) do
    if member:find(holder .. ':', 1, true) == 1 then return true end
  end
  return false
end
-- The fence with which this holder already writes, or false. Each grant of holder 0 counts as a
-- holder of its own. `writer` is any writer.
local function own_fence(writer, holder, serial)
  local own = holder .. ':' .. (holder:sub(-2) == ':0' and serial .. ':' or '')
  return writer:find(own, 1, true) == 1 and writer:match('%d+$')
end
