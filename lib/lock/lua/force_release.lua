local now = redis.call('TIME')
local name, type = KEYS[1], redis.call('TYPE', KEYS[1]).ok
if type ~= 'none' and type ~= 'string' and type ~= 'hash' then
  return redis.error_reply('WRONGTYPE the key holds no lock')
end
local deleted = redis.call('DEL', name)
if deleted == 1 then
  local first = head_if_any(KEYS[2], KEYS[3], math.floor(now[1] * 1000 + now[2] / 1000))
  redis.pcall('PUBLISH', 'rlock:' .. name, first or '')
  redis.pcall('PUBLISH', redisson_channel(name), '0')
end
return {ARGV[#ARGV], deleted}
