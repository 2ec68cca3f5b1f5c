-- A holder that already reads may read again while a writer waits, because the writer waits for
-- this holder. A holder that writes may read with the same fence. It keeps reading after it has
-- released its grant to write, and no other writer can get in between.
local function take(clock, lease_us, holder, serial, wait, _, _, name, queue, beats, readers)
  local member, owner = holder .. ':' .. serial, holder:sub(1, 37) .. serial
  local ms = math.floor(clock / 1000)
  local found, ends = live(name, clock)
  local is_written = found and ends < 0
  local fence = is_written and own_fence(found, holder, serial)
  local writer = head(queue, beats, '', ms, readers)
  local arrival = redis.call('ZSCORE', readers, owner)
  local due = redis.call('ZSCORE', beats, '-') or 0
  if fence or not is_written and (not writer or redis.call('ZSCORE', name, member) or
    not arrival and holds(name, holder) or arrival and arrival + 0 <= due + 0) then
    hold(name, member, clock + lease_us, is_written)
    quit(readers, beats, owner, queue)
    return '1', fence and fence + 0
  end
  if wait > 0 then join(readers, beats, owner, clock) end
  if is_written then return '0', math.ceil((-ends - clock) / 1000) end
  return '0', redis.call('ZSCORE', beats, writer) - ms
end
