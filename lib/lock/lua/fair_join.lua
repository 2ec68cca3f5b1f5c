local function join(queue, beats, owner, clock)
  local last = redis.call('ZRANGE', queue, -1, -1, 'WITHSCORES')[2] or 0
  local arrival = string.format('%.0f', math.max(clock, last + 1))
  redis.call('ZADD', queue, 'NX', arrival, owner)
  local ms = math.floor(clock / 1000)
  redis.call('ZADD', beats, ms + patience, owner, ms, '')
  redis.call('PEXPIRE', queue, 30000)
  redis.call('PEXPIRE', beats, 30000)
end
