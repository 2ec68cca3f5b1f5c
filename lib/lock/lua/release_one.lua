-- Reads the waiting key and the locks. MGET returns nil, not an error, for a key of another type.
-- The most frequent call, which releases one lock without waiters, ends here.
local found = redis.call('MGET', unpack(KEYS))
if #KEYS == 2 and not found[1] then
  if found[2] ~= ARGV[1] then return ARGV[2] .. ' 0' end
  redis.call('DEL', KEYS[2])
  return ARGV[2] .. ' 1'
end
