for i = 1, count do results[i] = try_to_set(KEYS[i + 1], ARGV[i + 2]) end
return {ARGV[#ARGV], clock, fence, table.concat(results)}
