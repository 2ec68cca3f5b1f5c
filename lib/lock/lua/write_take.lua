-- A holder that writes may write again with the same fence. A holder that only reads may not write,
-- because it would wait for itself. It may write only if it was in the queue before it got the
-- grant to read.
local function take(clock, lease_us, holder, serial, wait, _, fence, name, queue, beats, readers)
  local member, owner = holder .. ':' .. serial, holder:sub(1, 37) .. serial
  local ms = math.floor(clock / 1000)
  local found, ends = live(name, clock)
  local is_written = found and ends < 0
  local first_fence = is_written and own_fence(found, holder, serial)
  local writer = head(queue, beats, owner, ms, readers)
  local reader, is_due = first_reader(queue, beats, readers, ms)
  if first_fence or not found and (not writer or writer == owner) and not is_due then
    hold(name, member .. ':' .. (first_fence or fence), -clock - lease_us, true)
    if reader and not first_fence then
      local last = redis.call('ZRANGE', readers, -1, -1, 'WITHSCORES')[2]
      redis.call('ZADD', beats, last, '-')
    end
    quit(queue, beats, owner, readers)
    return '1', first_fence and first_fence + 0
  end
  if found and not redis.call('ZSCORE', queue, owner) and holds(name, holder) then return 'X' end
  if wait > 0 then join(queue, beats, owner, clock) end
  if not found then return '0', redis.call('ZSCORE', beats, is_due and reader or writer) - ms end
  return '0', math.ceil((last_end(name, is_written) - clock) / 1000)
end
