-- A holder that already reads may read again while a writer waits: the writer waits for this holder.
local function take(clock, lease_us, holder, serial, wait, _, name, queue, beats, readers)
  local member, owner = holder .. ':' .. serial, holder:sub(1, 37) .. serial
  local ms = math.floor(clock / 1000)
  local found, ends = live(name, clock)
  local is_written = found and ends < 0
  local writer = head(queue, beats, '', ms, readers)
  local arrival = redis.call('ZSCORE', readers, owner)
  local due = redis.call('ZSCORE', beats, '-') or 0
  local is_ours = redis.call('ZSCORE', name, member)
  local is_nested = not arrival and (is_written or writer) and holds(name, holder)
  if is_written and is_nested then return 'X' end
  if not is_written and
    (not writer or is_ours or is_nested or arrival and arrival + 0 <= due + 0) then
    hold(name, member, clock + lease_us)
    quit(readers, beats, owner, queue)
    return '1'
  end
  if wait > 0 then join(readers, beats, owner, clock) end
  if is_written then return '0', math.ceil((-ends - clock) / 1000) end
  return '0', redis.call('ZSCORE', beats, writer) - ms
end
