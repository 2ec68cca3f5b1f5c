-- The holder is the shortest field of a hash: our other fields begin with it.
local ttl = redis.call('PTTL', KEYS[1])
if redis.call('TYPE', KEYS[1]).ok ~= 'hash' then
  return {ARGV[#ARGV], redis.call('GET', KEYS[1]), ttl, 1}
end
local holder
for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
  if not holder or #field < #holder then holder = field end
end
return {ARGV[#ARGV], holder, ttl, tonumber(redis.call('HGET', KEYS[1], holder)) or 0}
