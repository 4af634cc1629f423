-- Read messages by rank while the queue is in use: rank, envelope; of each.
--#keys messages bodies
--#args after limit:number
-- after: rank to go on behind

local ranks = redis.call('ZRANGEBYSCORE', messages, '(' .. after, '+inf', 'LIMIT', 0, limit)
if #ranks == 0 then
    return {}
end
local page = {}
for place, envelope in ipairs(redis.call('HMGET', bodies, unpack(ranks))) do
    page[2 * place - 1], page[2 * place] = ranks[place], envelope
end
return page
