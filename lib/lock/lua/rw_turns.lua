-- Waiting writers are in `queue`, waiting readers in `readers`, and both in `beats`. The score of
-- '-' in `beats` is the arrival of the newest reader that was waiting when the last writer was
-- granted. Readers that arrived up to then are due: they go before the next writer. Other readers
-- go after the waiting writers. So a reader waits for at most one writer that is granted after the
-- reader's arrival. A writer waits for owners, for earlier writers, and for readers that came
-- before the last writer was granted.
local function first_reader(queue, beats, readers, ms)
  local first = head(readers, beats, '', ms, queue)
  local due = redis.call('ZSCORE', beats, '-') or 0
  return first, first and redis.call('ZSCORE', readers, first) + 0 <= due + 0
end
local function wake(name, clock, queue, beats, readers)
  local ms = math.floor(clock / 1000)
  local found, ends = live(name, clock)
  if found and ends < 0 then return end
  local writer = head(queue, beats, '', ms, readers)
  local reader, is_due = first_reader(queue, beats, readers, ms)
  if reader and (is_due or not writer) then
    redis.pcall(KEYS.publish or 'PUBLISH', 'rlock:' .. name, '')
  elseif writer and not found then
    redis.pcall(KEYS.publish or 'PUBLISH', 'rlock:' .. name, writer)
  end
end
