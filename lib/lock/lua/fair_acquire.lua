local results, numbers = {}, {}
for i = 1, count do
  local is_done, result, ttl = pcall(take, KEYS[3 * i - 1], KEYS[3 * i],
    KEYS[3 * i + 1], ARGV[2 * i + 1], ARGV[2 * i + 2] + 0, lease, clock)
  results[i] = is_done and result or 'E'
  numbers[i] = ttl or fence + i
end
return {ARGV[#ARGV], clock, fence, table.concat(results), numbers}
