local call, results = redis.pcall, {}
for i = 1, #KEYS do
  local name, at = KEYS[i], 3 * i - 2
  local holder = ARGV[at]
  local grant = holder .. ':' .. ARGV[at + 1]
  local lease = ARGV[at + 2]
  local is_ours = type(call('HGET', name, grant)) == 'string'
  results[i] = is_ours and '1' or '0'
  if is_ours and call('PTTL', name) < lease + 0 then
    redis.call('PEXPIRE', name, lease)
  end
end
return ARGV[#ARGV] .. ' ' .. table.concat(results)
