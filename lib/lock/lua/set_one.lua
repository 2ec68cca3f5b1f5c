-- One lock that is free, which is the most frequent call, needs nothing of what follows. A lock of a
-- cohort, which has three arguments, also needs fences for its passes.
if count == 1 and #ARGV < 6 then
  local set = call('SET', KEYS[#KEYS], ARGV[3], 'NX', 'PX', lease)
  if set and not set.err then return {ARGV[#ARGV], clock, fence, '1'} end
end
