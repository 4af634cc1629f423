-- Read topics in order of name: name, metadata; of each.
local topics      = KEYS[1]            -- hash: name -> metadata
local topic_names = KEYS[2]            -- zset, score 0: names of topics
local after       = ARGV[1]            -- name to go on behind, or ''
local limit       = tonumber(ARGV[2])  -- topics at most

local from = after == '' and '-' or '(' .. after
local names = redis.call('ZRANGEBYLEX', topic_names, from, '+', 'LIMIT', 0, limit)
local found = {}
for _, name in ipairs(names) do
    found[#found + 1] = name
    found[#found + 1] = redis.call('HGET', topics, name)
end
return found
