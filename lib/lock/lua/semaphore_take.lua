-- A fair semaphore has a queue. The head takes a permit. If another permit is left, it wakes the
-- next waiter.
local function take(clock, lease_us, holder, serial, wait, permits, _, name, queue, beats)
  local member, owner = holder .. ':' .. serial, holder:sub(1, 37) .. serial
  local ms = math.floor(clock / 1000)
  local _, ends = live(name, clock)
  local first = queue and head(queue, beats, owner, ms)
  local left = permits - redis.call('ZCARD', name)
  if redis.call('ZSCORE', name, member) or left > 0 and (not first or first == owner) then
    hold(name, member, clock + lease_us)
    if not queue then return '1' end
    quit(queue, beats, owner)
    first = left > 1 and head_if_any(queue, beats, ms)
    if first then redis.pcall(KEYS.publish or 'PUBLISH', 'rlock:' .. name, first) end
    return '1'
  end
  if queue and wait > 0 then join(queue, beats, owner, clock) end
  if left > 0 then return '0', redis.call('ZSCORE', beats, first) - ms end
  return '0', math.ceil((ends - clock) / 1000)
end
