local function take(clock, lease_us, holder, serial, wait, _, name, queue, beats, readers)
  local member, owner = holder .. ':' .. serial, holder:sub(1, 37) .. serial
  local ms = math.floor(clock / 1000)
  local found = live(name, clock)
  local writer = head(queue, beats, owner, ms, readers)
  local reader, is_due = first_reader(queue, beats, readers, ms)
  if found == member or not found and (not writer or writer == owner) and not is_due then
    hold(name, member, -clock - lease_us)
    if reader then
      local last = redis.call('ZRANGE', readers, -1, -1, 'WITHSCORES')[2]
      redis.call('ZADD', beats, last, '-')
    end
    quit(queue, beats, owner, readers)
    return '1'
  end
  if found and not redis.call('ZSCORE', queue, owner) and holds(name, holder) then return 'X' end
  if wait > 0 then join(queue, beats, owner, clock) end
  if not found then return '0', redis.call('ZSCORE', beats, is_due and reader or writer) - ms end
  local last = redis.call('ZRANGE', name, -1, -1, 'WITHSCORES')[2]
  return '0', math.ceil((math.abs(last) - clock) / 1000)
end
