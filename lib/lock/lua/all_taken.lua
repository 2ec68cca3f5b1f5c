-- A waiter that tries again usually finds the lock still taken. If all locks are taken, this part
-- replies without the clock and without a fence. It does not compare the owners, because the
-- waiters surely have none of these locks.
local left, is_taken = {}, true
for i = 1, count do
  left[i] = redis.call('PTTL', KEYS[i + 2])
  is_taken = is_taken and left[i] ~= -2
end
if is_taken then return {ARGV[#ARGV], ('0'):rep(count), left} end
