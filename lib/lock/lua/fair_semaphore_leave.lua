local function leave(is_ours, clock, owner, name, queue, beats)
  quit(queue, beats, owner)
  local first = head_if_any(queue, beats, math.floor(clock / 1000))
  if first then redis.pcall(KEYS.publish or 'PUBLISH', 'rlock:' .. name, first) end
  return is_ours and '1' or '0'
end
