local call, results = redis.pcall, {}
for i = 1, #KEYS do
  local name, at = KEYS[i], 2 * i - 1
  local holder = ARGV[at]
  local grant = holder .. ':' .. ARGV[at + 1]
  local is_ours = call('HEXISTS', name, grant) == 1
  if is_ours then redis.call('HDEL', name, grant) end
  results[i] = is_ours and '1' or '0'
  if is_ours and call('HINCRBY', name, holder, -1) <= 0 then
    call('DEL', name)
    results[i] = publish(redisson_channel(name), '0')
  end
end
return ARGV[#ARGV] .. ' ' .. table.concat(results)
