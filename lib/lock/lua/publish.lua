-- If the user may not publish, the lock is released without a message. Waiters try again by
-- themselves.
local function publish(channel, text)
  local receivers = redis.pcall(KEYS.publish or 'PUBLISH', channel, text)
  return type(receivers) == 'number' and math.min(receivers, 8) + 1 or '1'
end
