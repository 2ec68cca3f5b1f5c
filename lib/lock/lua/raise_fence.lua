-- Raises a counter that comes from an old snapshot or from a replica that was behind.
-- draw_fences.lua restarts a counter that is no number or is too great. Also returns the greatest
-- value that a counter may have.
local least = math.max(clock, ARGV[1])
if least > most then least = clock end
local counter = tonumber(redis.call('GET', KEYS[1]) or 0)
if counter and counter < least then
  redis.call('SET', KEYS[1], string.format('%.0f', least))
end
return {ARGV[#ARGV], clock, most}
