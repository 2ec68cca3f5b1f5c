local call, results = redis.pcall, {}
-- Deletes the lock and wakes its waiters.
local function free(name)
  redis.call('DEL', name)
  return publish(redisson_channel(name), '0')
end
-- The most frequent call releases the only grant of one lock.
if #KEYS == 1 then
  local found = call('HMGET', KEYS[1], ARGV[1] .. ':' .. ARGV[2], ARGV[1])
  if found[1] and found[2] == '1' then return ARGV[3] .. ' ' .. free(KEYS[1]) end
end
for i = 1, #KEYS do
  local name, at = KEYS[i], 2 * i - 1
  local holder = ARGV[at]
  local grant = holder .. ':' .. ARGV[at + 1]
  local found = call('HMGET', name, grant, holder)
  results[i] = found[1] and '1' or '0'
  if found[1] and (tonumber(found[2]) or 0) > 1 then
    redis.call('HDEL', name, grant)
    redis.call('HINCRBY', name, holder, -1)
  elseif found[1] then
    results[i] = free(name)
  end
end
return ARGV[#ARGV] .. ' ' .. table.concat(results)
