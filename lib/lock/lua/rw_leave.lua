local function leave(is_ours, clock, owner, name, queue, beats, readers)
  quit(queue, beats, owner, readers)
  quit(readers, beats, owner, queue)
  wake(name, clock, queue, beats, readers)
  return is_ours and '1' or '0'
end
