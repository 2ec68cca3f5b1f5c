local results, ours = {}, {}
for i = 2, #KEYS do
  local is_ours = found[i] == ARGV[i - 1]
  results[i - 1] = is_ours and '1' or '0'
  if is_ours then ours[#ours + 1] = KEYS[i] end
end
if #ours > 0 then redis.call('DEL', unpack(ours)) end
for i = 2, found[1] and #KEYS or 0 do
  if results[i - 1] == '1' then results[i - 1] = publish('rlock:' .. KEYS[i], '') end
end
return ARGV[#ARGV] .. ' ' .. table.concat(results)
