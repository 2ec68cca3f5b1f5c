-- The holders of a semaphore or of a read/write lock are a sorted set of "client:holder:serial". The
-- score is the end of the lease in us on the clock of the server, negative for a writer. A lease that
-- has ended does not count, and the key expires with the last lease. A name that may be the key of a
-- queue is refused, because a queue is a sorted set, too.
local is_of_queue = {[':queue'] = true, [':beats'] = true, [':readers'] = true}
local function check(name)
  local first = redis.call('ZRANGE', name, 0, 0)[1]
  local is_lock = not first or first:find(':%d+:%d+$')
  if not is_lock or is_of_queue[name:match(':%a+$')] then error('no lock') end
end
local function live(name, clock)
  check(name)
  clock = string.format('%.0f', clock)
  redis.call('ZREMRANGEBYSCORE', name, '-' .. clock, clock)
  local first = redis.call('ZRANGE', name, 0, 0, 'WITHSCORES')
  return first[1], tonumber(first[2])
end
local function hold(name, member, until_us)
  redis.call('ZADD', name, string.format('%.0f', until_us), member)
  local last = redis.call('ZRANGE', name, -1, -1, 'WITHSCORES')[2]
  redis.call('PEXPIREAT', name, string.format('%.0f', math.floor(math.abs(last) / 1000)))
end
