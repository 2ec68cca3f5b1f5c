local function join(queue, beats, owner, clock)
  local last = redis.call('ZRANGE', queue, -1, -1, 'WITHSCORES')[2] or 0
  local arrival = string.format('%.0f', math.max(clock, last + 1))
  redis.call('ZADD', queue, 'NX', arrival, owner)
  local ms = math.floor(clock / 1000)
  redis.call('ZADD', beats, ms + patience, owner, ms, '')
  redis.call('PEXPIRE', queue, 30000)
  redis.call('PEXPIRE', beats, 30000)
end
local function take(name, queue, beats, owner, wait, lease, clock)
  redis.call('ZCARD', beats)
  local first = head(queue, beats, owner, math.floor(clock / 1000))
  local found = redis.call('GET', name)
  if found == owner or not found and (not first or first == owner) then
    redis.call('SET', name, owner, 'PX', lease)
    quit(queue, beats, owner)
    return '1'
  end
  if wait > 0 then join(queue, beats, owner, clock) end
  if found then return '0', redis.call('PTTL', name) end
  return '0', redis.call('ZSCORE', beats, first) - math.floor(clock / 1000)
end
