local function leave(_, clock, owner, name, queue, beats)
  quit(queue, beats, owner)
  local first = head_if_any(queue, beats, math.floor(clock / 1000))
  if first then redis.pcall(KEYS.publish or 'PUBLISH', 'rlock:' .. name, first) end
end
