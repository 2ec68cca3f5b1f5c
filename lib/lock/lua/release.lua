-- MGET returns nil, not an error, for a key of another type.
local found = redis.call('MGET', unpack(KEYS))
local results, ours, names = {}, {}, {}
for i = 2, #KEYS do
  local is_ours = found[i] == ARGV[i - 1]
  results[i - 1] = is_ours and 1 or 0
  if is_ours then
    ours[#ours + 1] = i
    names[#names + 1] = KEYS[i]
  end
end
if #names > 0 then redis.call('DEL', unpack(names)) end
for _, i in ipairs(found[1] and ours or {}) do
  results[i - 1] = publish('rlock:' .. KEYS[i], '')
end
return ARGV[#ARGV] .. ' ' .. table.concat(results)
