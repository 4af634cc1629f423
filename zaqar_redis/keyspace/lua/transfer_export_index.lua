-- Read the present state of messages: rank, expiry, end of the hold or '', end of the
-- delay or '', hold or '', head of the envelope or, behind the rank that was read
-- last while the queue was in use, all of it; of each.
--#keys messages bodies claimed delayed expiry holds move_lock
--#args token lease:number after limit:number copied_rank:number
-- after: rank to go on behind
-- copied_rank: rank of the last message that was copied already
--#include source_lock envelope

local ranks = redis.call('ZRANGEBYSCORE', messages, '(' .. after, '+inf', 'LIMIT', 0, limit)
if #ranks == 0 then
    return {}
end
local envelopes = redis.call('HMGET', bodies, unpack(ranks))
local expires = redis.call('ZMSCORE', expiry, unpack(ranks))
local held = redis.call('ZMSCORE', claimed, unpack(ranks))
local later = redis.call('ZMSCORE', delayed, unpack(ranks))
local last = redis.call('HMGET', holds, unpack(ranks))
local page = {}
for place, rank in ipairs(ranks) do
    local at, envelope = 6 * place, envelopes[place]
    page[at - 5] = rank
    page[at - 4] = expires[place] or string.format('%.0f', expiry_of(envelope))
    page[at - 3], page[at - 2] = held[place] or '', later[place] or ''
    page[at - 1] = last[place] or ''
    page[at] = tonumber(rank) > copied_rank and envelope or string.sub(envelope, 1, 24)
end
return page
