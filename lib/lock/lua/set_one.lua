-- The most frequent call acquires one free lock, and ends here. A lock of a cohort is not acquired
-- here: it has three arguments instead of two, and each pass needs a fence.
if count == 1 and #ARGV < 6 then
  local set = call('SET', KEYS[#KEYS], ARGV[3], 'NX', 'PX', lease)
  if set and not set.err then return {ARGV[#ARGV], clock, fence, '1'} end
end
