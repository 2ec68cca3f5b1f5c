local function leave(is_ours, clock, owner, name)
  return is_ours and publish('rlock:' .. name, '') or '0'
end
