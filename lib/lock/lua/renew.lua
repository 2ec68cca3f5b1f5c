local found = redis.call('MGET', unpack(KEYS))
local results = {}
for i = 1, #KEYS do
  local is_ours = found[i] == ARGV[2 * i - 1]
  results[i] = is_ours and '1' or '0'
  if is_ours then redis.call('PEXPIRE', KEYS[i], ARGV[2 * i]) end
end
return ARGV[#ARGV] .. ' ' .. table.concat(results)
