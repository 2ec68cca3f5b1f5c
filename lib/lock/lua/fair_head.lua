-- The queue of a fair lock.
--   queue    a sorted set of waiting owners; the score is the arrival by the server's clock, made
--            unique
--   beats    a sorted set of the same owners; the score is the time in ms until which the owner
--            counts as alive. The score of '' is the time when a waiter was last heard
--   other    a second queue that uses the same `beats`, or nil
--   beat_ms  RLOCK_FAIR_BEAT_MS, the time between two heartbeats of a waiter
--
-- excuse(): If no waiter was heard for a while, either the server stood still or all waiters are
-- dead. So each waiter counts as alive for `patience` once more. The keys are kept for longer than
-- `patience`.
--
-- head() removes dead waiters, but never `owner`, which makes the call.
--
-- If the lock is free, but the head of the queue has not taken it yet, the reply to another waiter
-- has the time for which the head still counts as alive. If the queue key has another type, a
-- release ignores the key, and take() fails before it changes anything.
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
