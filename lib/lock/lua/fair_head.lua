-- The queue is a sorted set of owners by the time of their arrival on the clock of the server, made
-- unique; the beats are the times, in ms, until which each counts as alive, and for '' the time when a
-- waiter was heard last. When none was heard for a while, the server stood still, or all are dead:
-- excuse() gives each of them one more patience. So the keys are kept for longer than that. head()
-- removes the dead, but never `owner`, which is calling. Where the lock is free but its head has not
-- taken it yet, the number is the rest of the head's beat. A release ignores a queue key of another
-- type; take() refuses it before it changes anything. `beat_ms` is RLOCK_FAIR_BEAT_MS. `other` is a
-- second queue with the same beats, or nil.
local patience = beat_ms * 3
local function excuse(queue, beats, ms, other)
  local heard = redis.call('ZSCORE', beats, '') or 0
  if heard + 0 == 0 or ms - heard < beat_ms * 2 then return end
  for _, key in ipairs({queue, other}) do
    for _, owner in ipairs(redis.call('ZRANGE', key, 0, -1)) do
      redis.call('ZADD', beats, ms + patience, owner)
    end
  end
  redis.call('ZADD', beats, 0, '')
end
local function quit(queue, beats, owner, other)
  redis.call('ZREM', queue, owner)
  redis.call('ZREM', beats, owner)
  if redis.call('EXISTS', queue, other or queue) == 0 then redis.call('DEL', beats) end
end
local function head(queue, beats, owner, ms, other)
  excuse(queue, beats, ms, other)
  while true do
    local first = redis.call('ZRANGE', queue, 0, 0)[1]
    if not first or first == owner then return first end
    local beat = redis.call('ZSCORE', beats, first)
    if beat and beat + 0 >= ms then return first end
    quit(queue, beats, first, other)
  end
end
local function head_if_any(queue, beats, ms)
  local is_queue, first = pcall(head, queue, beats, '', ms)
  return is_queue and first
end
