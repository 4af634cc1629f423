-- Read topics in order of name: name, metadata; of each.
--#keys topics topic_names
--#args after limit:number
-- after: name to go on behind, or ''

local from = after == '' and '-' or '(' .. after
local names = redis.call('ZRANGEBYLEX', topic_names, from, '+', 'LIMIT', 0, limit)
local found = {}
for _, name in ipairs(names) do
    found[#found + 1] = name
    found[#found + 1] = redis.call('HGET', topics, name)
end
return found
