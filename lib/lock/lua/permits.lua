-- The holders of a semaphore or of a read/write lock are a sorted set of "client:holder:serial".
-- The score is the end of the lease in us by the clock of the server. For a writer the score is
-- negative. A lease that has ended does not count, and the key expires with the last lease. A name
-- that may be the key of a queue is refused, because a queue is a sorted set, too.
--
-- The member of a writer has one number more, "client:holder:serial:fence". All grants to write
-- that a holder has at a time have the fence of the first grant. live() removes ended leases. It
-- returns the member with the lowest score, and this score, which is negative while there is a
-- writer. find() returns the member of a grant, and the lowest score.
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
local function find(name, member, clock)
  local _, ends = live(name, clock)
  if ends and ends < 0 then
    for _, writer in ipairs(redis.call('ZRANGE', name, '-inf', '(0', 'BYSCORE')) do
      if writer:find(member .. ':', 1, true) == 1 then return writer, ends end
    end
  end
  return member, ends
end
local function last_end(name, is_written)
  local last = math.abs(redis.call('ZRANGE', name, -1, -1, 'WITHSCORES')[2])
  local first = is_written and redis.call('ZRANGE', name, 0, 0, 'WITHSCORES')[2] or 0
  return math.max(last, -first)
end
local function hold(name, member, until_us, is_written)
  redis.call('ZADD', name, string.format('%.0f', until_us), member)
  local until_ms = math.floor(last_end(name, is_written) / 1000)
  redis.call('PEXPIREAT', name, string.format('%.0f', until_ms))
end
