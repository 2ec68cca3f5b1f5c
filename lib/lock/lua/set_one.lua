-- The most frequent call acquires one free lock, and ends here. The lock of a cohort is acquired
-- elsewhere, because its owners pass the lock on, and each of them needs a fence. It has three
-- arguments instead of two, so #ARGV is at least 6.
if count == 1 and #ARGV < 6 then
  local set = call('SET', KEYS[#KEYS], ARGV[3], 'NX', 'PX', lease)
  if set and not set.err then return {ARGV[#ARGV], clock, fence, '1'} end
end
