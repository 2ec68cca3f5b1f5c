-- Reads the waiting key and the locks. MGET returns nil, not an error, for a key of another type. One
-- lock for which nobody waits, which is the most frequent call, needs nothing of what follows.
local found = redis.call('MGET', unpack(KEYS))
if #KEYS == 2 and not found[1] then
  if found[2] ~= ARGV[1] then return ARGV[2] .. ' 0' end
  redis.call('DEL', KEYS[2])
  return ARGV[2] .. ' 1'
end
