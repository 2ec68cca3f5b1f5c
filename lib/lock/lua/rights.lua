-- Tells which rights the user of a connection lacks. ARGV[1] is the waiting key. If a right that
-- kind plain needs is missing, hardly anything works, and the script returns an error that names
-- the missing rights of kind plain. Otherwise it returns the missing rights that only some kinds
-- and calls need. The script changes nothing: the fence counter is a string, so commands for other
-- types fail on it.
local waiting, lacks, others = ARGV[1], {}, {}
local fences = waiting:sub(1, -#':waiting' - 1)
local absent = fences .. ':none'
local function is_denied(reply, words)
  local why = type(reply) == 'table' and reply.err or ''
  return why:find("can't " .. words, 1, true) or why:find('permissions to ' .. words, 1, true)
end
local function add(list, right)
  if not list[right] then list[#list + 1], list[right] = right, true end
end
local function try(list, command, ...)
  local key, reply = ..., redis.pcall(command, ...)
  if is_denied(reply, 'run') then add(list, '+' .. command:lower()) end
  if is_denied(reply, 'access') and (key == fences or key == waiting) then add(list, '~' .. key) end
  return reply
end
try(lacks, 'TIME')
try(lacks, 'INCRBY', fences, 0)
local counter = try(lacks, 'GET', fences)
try(lacks, 'SET', waiting, '', 'XX', 'KEEPTTL')
try(lacks, 'MGET', waiting)
try(lacks, 'PTTL', waiting)
try(lacks, 'EXISTS', waiting)
try(lacks, 'PEXPIRE', absent, 1)
try(lacks, 'DEL', absent)
if #lacks > 0 then return redis.error_reply('NOPERM the user lacks ' .. table.concat(lacks, ' ')) end
if type(counter) ~= 'string' then return '' end
try(others, KEYS.publish or 'PUBLISH', 'rlock:' .. fences, '')
for _, command in ipairs({'HKEYS', 'HLEN', 'ZCARD', 'TYPE'}) do try(others, command, fences) end
for _, command in ipairs({'HGET', 'HMGET', 'HDEL', 'ZREM', 'ZSCORE'}) do try(others, command, fences, '') end
for _, command in ipairs({'HSET', 'HSETNX', 'HINCRBY'}) do try(others, command, fences, '', 1) end
for _, command in ipairs({'ZRANGE', 'ZREMRANGEBYSCORE', 'GETRANGE'}) do try(others, command, fences, 0, 0) end
try(others, 'ZADD', fences, 1, '')
try(others, 'PEXPIREAT', absent, 1)
try(others, 'SETNX', fences, counter)
try(others, 'GETSET', fences, counter)
try(others, 'SCAN', 0, 'COUNT', 1)
try(others, 'PUBSUB', 'NUMSUB')
return table.concat(others, ' ')
