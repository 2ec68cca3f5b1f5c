local function leave(_, clock, owner, name, queue, beats, readers)
  quit(queue, beats, owner, readers)
  quit(readers, beats, owner, queue)
  wake(name, clock, queue, beats, readers)
end
