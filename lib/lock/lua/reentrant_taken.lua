-- If others hold all locks, neither the clock nor a fence is needed.
local function look(i)
  local left = redis.call('PTTL', KEYS[i + 1])
  return left ~= -2 and redis.pcall('HGET', KEYS[i + 1], ARGV[2 * i + 1]), left
end
local held, left, is_taken = {}, {}, true
for i = 1, count do
  held[i], left[i] = look(i)
  is_taken = is_taken and not held[i] and left[i] ~= -2
end
if is_taken then return {ARGV[#ARGV], ('0'):rep(count), left} end
