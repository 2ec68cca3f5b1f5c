-- Returns the channel of Redisson, as kind_redisson_channel() in kinds.c does.
local function redisson_channel(name)
  return 'redisson_lock__channel:' .. (name:find('{', 1, true) and name or '{' .. name .. '}')
end
