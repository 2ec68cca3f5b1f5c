-- Releases the lock of an owner, or lets a waiter leave the queue. An owner is not in the queue. If
-- the name is free afterwards, the head of the queue is woken.
local function now_ms()
  local now = redis.call('TIME')
  return math.floor(now[1] * 1000 + now[2] / 1000)
end
local function leave(name, queue, beats, owner)
  local found = redis.pcall('GET', name)
  if found == owner then redis.call('DEL', name) else pcall(quit, queue, beats, owner) end
  if (found == owner or not found) and redis.call('EXISTS', queue) == 1 then
    local first = head_if_any(queue, beats, now_ms())
    if first then redis.pcall(KEYS.publish or 'PUBLISH', 'rlock:' .. name, first) end
  end
  return found == owner and '1' or '0'
end
local results = {}
for i = 1, #ARGV - 1 do
  results[i] = leave(KEYS[3 * i - 2], KEYS[3 * i - 1], KEYS[3 * i], ARGV[i])
end
return ARGV[#ARGV] .. ' ' .. table.concat(results)
