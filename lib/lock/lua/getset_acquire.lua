-- Since 2001 a time in ms has 13 digits. Any other value is refused.
local results, numbers = {}, {}
for i = 1, count do
  local name, now_ms, expiry_ms = KEYS[i + 1], ARGV[2 * i + 1], ARGV[2 * i + 2]
  local found = call('GET', name)
  local is_time = type(found) == 'string' and found:find('^%d+$') and #found == 13
  local until_ms = is_time and tonumber(found)
  numbers[i] = fence + i
  if call('SETNX', name, expiry_ms) == 1 then
    results[i] = '1'
  elseif not until_ms then
    results[i] = 'E'
  elseif until_ms < now_ms + 0 and call('GETSET', name, expiry_ms) == found then
    results[i] = '1'
  else
    results[i] = '0'
    numbers[i] = until_ms - now_ms
  end
end
return {ARGV[#ARGV], clock, fence, table.concat(results), numbers}
