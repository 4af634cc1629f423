-- Read messages by rank while the queue is in use: rank, envelope; of each.
--#keys messages bodies
--#args after limit:number bytes:number
-- after: rank to go on behind
-- bytes: no more messages are read once the envelopes have as many

local ranks = redis.call('ZRANGEBYSCORE', messages, '(' .. after, '+inf', 'LIMIT', 0, limit)
local page, size = {}, 0
for from = 1, #ranks, 50 do  -- large ones are not read in vain
    local last = math.min(from + 49, #ranks)
    for place, envelope in ipairs(redis.call('HMGET', bodies, unpack(ranks, from, last))) do
        page[#page + 1], page[#page + 2] = ranks[from + place - 1], envelope
        size = size + #envelope
    end
    if size >= bytes then
        return page
    end
end
return page
