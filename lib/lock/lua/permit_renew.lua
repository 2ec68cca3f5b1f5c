local now = redis.call('TIME')
local clock = now[1] * 1000000 + now[2]
local function renew(name, member, lease)
  local first
  member, first = find(name, member, clock)
  local ends = redis.call('ZSCORE', name, member)
  if not ends then return '0' end
  hold(name, member, (clock + lease * 1000) * (ends + 0 < 0 and -1 or 1), first < 0)
  return '1'
end
local results = {}
for i = 1, #KEYS do
  local at = 3 * i - 2
  local is_done, result = pcall(renew, KEYS[i], ARGV[at] .. ':' .. ARGV[at + 1], ARGV[at + 2])
  results[i] = is_done and result or '0'
end
return ARGV[#ARGV] .. ' ' .. table.concat(results)
