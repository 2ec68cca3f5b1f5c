local keys_each = (#KEYS - 1) / count
local results, numbers = {}, {}
for i = 1, count do
  local at, first_key = 4 * i - 1, (i - 1) * keys_each + 2
  local is_done, result, ttl = pcall(take, clock, lease * 1000, ARGV[at], ARGV[at + 1],
    ARGV[at + 2] + 0, ARGV[at + 3] + 0, string.format('%.0f', fence + i), unpack(KEYS, first_key, first_key + keys_each - 1))
  results[i] = is_done and result or 'E'
  numbers[i] = ttl or fence + i
end
return {ARGV[#ARGV], clock, fence, table.concat(results), numbers}
