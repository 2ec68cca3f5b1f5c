-- A user who may not publish has released the lock nevertheless, and waiters try again by themselves.
local function publish(channel, text)
  local hearers = redis.pcall(KEYS.publish or 'PUBLISH', channel, text)
  return type(hearers) == 'number' and hearers > 0 and math.min(hearers, 8) + 1 or '1'
end
