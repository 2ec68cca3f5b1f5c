-- Of several holders the one whose lease ends first. That of a hash is the shortest field: our other
-- fields begin with it.
local ttl = redis.call('PTTL', KEYS[1])
local type = redis.call('TYPE', KEYS[1]).ok
if type == 'zset' then
  local now = redis.call('TIME')
  local clock = now[1] * 1000000 + now[2]
  local is_lock, first, ends = pcall(live, KEYS[1], clock)
  if not is_lock then return redis.error_reply('WRONGTYPE the key holds no lock') end
  if not first then return {ARGV[#ARGV], false, -2, 0} end
  return {ARGV[#ARGV], first, math.ceil((math.abs(ends) - clock) / 1000), redis.call('ZCARD', KEYS[1])}
end
if type ~= 'hash' then
  return {ARGV[#ARGV], redis.call('GET', KEYS[1]), ttl, 1}
end
local holder
for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
  if not holder or #field < #holder then holder = field end
end
return {ARGV[#ARGV], holder, ttl, tonumber(redis.call('HGET', KEYS[1], holder)) or 0}
