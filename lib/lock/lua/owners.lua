-- add() appends to the reply, for each owner of a lock, {name, owner, remaining ms, count, waiting
-- clients}, ordered by the ends of the leases. The reply begins with the cursor of a scan; '0'
-- means that the scan is complete. If a scan has found the name, its owner must have our form or
-- the form of Redisson.
local now = redis.call('TIME')
local clock = now[1] * 1000000 + now[2]
local reply = {ARGV[#ARGV], '0'}
local function owners_of(name, type)
  if type == 'string' then
    return {{redis.call('GETRANGE', name, 0, 127), redis.call('PTTL', name), 1}}
  elseif type == 'hash' then -- the holder is the shortest field: our other fields begin with it
    local holder
    for _, field in ipairs(redis.call('HKEYS', name)) do
      if not holder or #field < #holder then holder = field end
    end
    return {{holder, redis.call('PTTL', name), tonumber(redis.call('HGET', name, holder)) or 0}}
  elseif type == 'zset' and pcall(check, name) then
    local owners, found = {}, redis.call('ZRANGE', name, 0, -1, 'WITHSCORES')
    for i = 1, #found, 2 do
      local left_us = math.abs(found[i + 1]) - clock
      local owner = found[i + 1] + 0 < 0 and found[i]:match('^(.*):') or found[i]
      if left_us > 0 then owners[#owners + 1] = {owner, math.ceil(left_us / 1000)} end
    end
    for _, owner in ipairs(owners) do owner[3] = #owners end
    return owners
  end
  return type == 'none' and {}
end
local function is_ours(owner)
  return owner:find('^%x+%-%x+%-%x+%-%x+%-%x+:[%d:]+$')
end
local function add(name, is_found)
  local type = redis.call('TYPE', name).ok
  if is_found and type == 'hash' and redis.call('HLEN', name) > 999 then return end
  local owners = owners_of(name, type)
  for _, owner in ipairs(owners or {}) do
    if is_found and not is_ours(owner[1]) then return end
    local channel = type == 'hash' and redisson_channel(name) or 'rlock:' .. name
    local count = KEYS.publish and 'SHARDNUMSUB' or 'NUMSUB'
    local waiters = redis.pcall('PUBSUB', count, channel)[2] or -1
    reply[#reply + 1] = {name, owner[1], owner[2], owner[3], waiters}
  end
  return owners
end
