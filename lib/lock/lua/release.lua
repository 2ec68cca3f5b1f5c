local results, ours = {}, {}
for i = 2, #KEYS do
  local is_ours = found[i] == ARGV[i - 1]
  results[i - 1] = is_ours and '1' or '0'
  if is_ours then ours[#ours + 1] = KEYS[i] end
end
if #ours > 0 then redis.call('DEL', unpack(ours)) end
-- If a name is free already, its last release may have been silent (wait.c) without a try behind it.
-- So the waiters get the message now.
for i = 2, found[1] and #KEYS or 0 do
  local is_ours = results[i - 1] == '1'
  local receivers = (is_ours or not found[i]) and publish('rlock:' .. KEYS[i], '')
  if is_ours then results[i - 1] = receivers end
end
return ARGV[#ARGV] .. ' ' .. table.concat(results)
