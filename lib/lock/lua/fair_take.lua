local function take(name, queue, beats, owner, wait, lease, clock)
  -- The most frequent case: nobody waits, and the lock is free.
  if redis.call('EXISTS', queue, beats) == 0 and redis.call('SET', name, owner, 'NX', 'PX', lease) then
    return '1'
  end
  local first = head(queue, beats, owner, math.floor(clock / 1000))
  local found = redis.call('GET', name)
  if found == owner or not found and (not first or first == owner) then
    redis.call('SET', name, owner, 'PX', lease)
    if first then quit(queue, beats, owner) end
    return '1'
  end
  if wait > 0 then join(queue, beats, owner, clock) end
  if found then return '0', redis.call('PTTL', name) end
  return '0', redis.call('ZSCORE', beats, first) - math.floor(clock / 1000)
end
