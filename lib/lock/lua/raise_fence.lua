-- A counter from an old snapshot or a lagging replica is raised.
local now = redis.call('TIME')
local clock = now[1] * 1000000 + now[2]
local least = math.max(clock, ARGV[1])
if tonumber(redis.call('GET', KEYS[1]) or 0) < least then
  redis.call('SET', KEYS[1], string.format('%.0f', least))
end
return {ARGV[#ARGV], clock}
