-- leave() ends the wait of `owner`, if it waits, and wakes others. If leave() returns a value, it
-- is the result for the lock.
local now = redis.call('TIME')
local clock = now[1] * 1000000 + now[2]
local function release(name, holder, serial, ...)
  local is_ours = redis.call('ZREM', name, (find(name, holder .. ':' .. serial, clock))) == 1
  local is_done, result = pcall(leave, is_ours, clock, holder:sub(1, 37) .. serial, name, ...)
  return is_done and result or is_ours and '1' or '0'
end
local count, results = (#ARGV - 1) / 2, {}
local keys_each = #KEYS / count
for i = 1, count do
  local first_key = (i - 1) * keys_each + 1
  local is_done, result = pcall(release, KEYS[first_key], ARGV[2 * i - 1], ARGV[2 * i],
    unpack(KEYS, first_key + 1, first_key + keys_each - 1))
  results[i] = is_done and result or '0'
end
return ARGV[#ARGV] .. ' ' .. table.concat(results)
