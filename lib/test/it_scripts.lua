local server, clock, refused, receivers, publish = redis, ARGV[1] + 0, ARGV[2], ARGV[3] + 0, ARGV[4]
local numsub = publish == 'PUBLISH' and 'NUMSUB' or 'SHARDNUMSUB'
local messages, hour = {}, 3600000
local function id_of(letter) return (('xxxxxxxx-xxxx-4xxx-8xxx-xxxxxxxxxxxx'):gsub('x', letter:lower())) end
local function whole(number) return ('%.0f'):format(number) end
local function expand(word)
  if word == "''" then return '' end
  word = word:gsub('^%u%f[:]', id_of)
  word = word:gsub('^(-?)t([+-]%d+)$', function(sign, us) return sign .. whole(clock + us) end)
  word = word:gsub('^m([+-]%d+)$', function(ms) return whole(math.floor(clock / 1000) + ms) end)
  return (word:gsub('^(%d+)h$', function(hours) return whole(hours * hour) end))
end
local function shrink(word)
  if word == '' then return "''" end
  word = word:gsub('(%x)%x%x%x%x%x%x%x%-%x%x%x%x%-%x+%-%x+%-%x+', string.upper)
  word = word:gsub('%d+', function(digits)
    if #digits == 16 then return ('t%+.0f'):format(digits - clock) end
    if #digits == 13 then return ('m%+.0f'):format(digits - math.floor(clock / 1000)) end
    if digits:find('^[1-9]') and digits % hour == 0 then return whole(digits / hour) .. 'h' end
  end)
  return word
end
local function text_of(value)
  if type(value) ~= 'table' then return shrink(type(value) == 'number' and whole(value) or tostring(value)) end
  if value.err then return 'error: ' .. shrink(value.err) end
  if value.ok then return value.ok end
  local texts = {}
  for i, each in ipairs(value) do texts[i] = text_of(each) end
  return '{' .. table.concat(texts, ' ') .. '}'
end
local function ttl_of(key)
  local ms = server.call('PTTL', key)
  return ms > 0 and math.ceil(ms / hour) * hour or ms
end
local function answer(command, ...)
  local key, value = ...
  if command == refused or refused == 'PUBLISH' and command == publish then return {err = 'OOM refused'} end
  if command == 'TIME' then return {whole(math.floor(clock / 1000000)), whole(clock % 1000000)} end
  if command == 'PTTL' then return ttl_of(key) end
  if command == 'PEXPIREAT' then return server.pcall('PEXPIRE', key, value - math.floor(clock / 1000)) end
  if command == 'PUBSUB' then
    messages[#messages + 1] = 'of ' .. value .. '?'
    return key == numsub and {value, receivers} or {err = 'ERR ' .. key}
  end
  if command ~= publish then return server.pcall(command, ...) end
  messages[#messages + 1] = shrink(key .. '=' .. shrink(value))
  return receivers
end
local redis = setmetatable({pcall = answer, call = function(...)
  local reply = answer(...)
  if type(reply) == 'table' and reply.err then error(reply.err, 0) end
  return reply
end}, {__index = server})
local function content_of(key)
  local type, words = server.call('TYPE', key).ok, {}
  if type == 'string' then return server.call('GET', key) end
  if type == 'zset' then return server.call('ZRANGE', key, 0, -1, 'WITHSCORES') end
  if type == 'list' then return server.call('LRANGE', key, 0, -1) end
  for i, field in ipairs(server.call('HKEYS', key)) do
    words[i] = field .. '=' .. server.call('HGET', key, field)
  end
  table.sort(words)
  return words
end
local function snapshot()
  local keys = {}
  for _, key in ipairs(server.call('KEYS', '*')) do
    local ttl = ttl_of(key)
    keys[key] = text_of(content_of(key)) .. (ttl < 0 and '' or '/' .. text_of(ttl))
  end
  return keys
end
local function changes(before, after)
  local texts = {}
  for key, text in pairs(after) do
    if text ~= before[key] then texts[#texts + 1] = key .. '=' .. text end
  end
  for key in pairs(before) do
    if not after[key] then texts[#texts + 1] = key .. ' deleted' end
  end
  table.sort(texts)
  return table.concat(texts, ', ')
end
local function script(KEYS, ARGV)
--SCRIPT--
end
local before, args = snapshot(), {}
for i = 5, #ARGV do args[i - 4] = expand(ARGV[i]) end
local is_done, reply = pcall(script, KEYS, args)
reply = is_done and text_of(reply) or 'raised: ' .. (type(reply) == 'table' and reply.err or reply)
return reply .. ' | ' .. table.concat(messages, ', ') .. ' | ' .. changes(before, snapshot())
