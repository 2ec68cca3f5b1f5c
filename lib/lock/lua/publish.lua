-- A user who may not publish has released the lock nevertheless, and waiters try again by themselves.
local function publish(channel, text)
  local receivers = redis.pcall(KEYS.publish or 'PUBLISH', channel, text)
  return type(receivers) == 'number' and receivers > 0 and math.min(receivers, 8) + 1 or '1'
end
