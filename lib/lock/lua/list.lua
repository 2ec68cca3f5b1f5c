-- Scans the names that begin with ARGV[1], from the cursor ARGV[2]. KEYS[1] is any key of the same
-- slot. Nothing is written, and keys that this user may not read are skipped.
local page = redis.call('SCAN', ARGV[2], 'MATCH', ARGV[1] .. '*', 'COUNT', 200)
reply[2] = page[1]
for _, name in ipairs(page[2]) do pcall(add, name, true) end
return reply
