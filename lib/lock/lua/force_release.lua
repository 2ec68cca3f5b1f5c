local now = redis.call('TIME')
local name, type = KEYS[1], redis.call('TYPE', KEYS[1]).ok
local is_set = type == 'zset' and pcall(live, name, now[1] * 1000000 + now[2])
if type ~= 'none' and type ~= 'string' and type ~= 'hash' and not is_set then
  return redis.error_reply('WRONGTYPE the key holds no lock')
end
local deleted = redis.call('DEL', name)
if deleted == 1 then
  local first = head_if_any(KEYS[2], KEYS[3], math.floor(now[1] * 1000 + now[2] / 1000))
  local publish = KEYS.publish or 'PUBLISH'
  if first then redis.pcall(publish, 'rlock:' .. name, first) end
  if is_set or not first then redis.pcall(publish, 'rlock:' .. name, '') end
  redis.pcall(publish, redisson_channel(name), '0')
end
return {ARGV[#ARGV], deleted}
