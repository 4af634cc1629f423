-- Set the present state of messages, and drop those of the interval that are gone by now.
--#keys queue @message move_lock
--#args now:number token after upto rest...
-- after: rank that the interval begins behind
-- upto: rank that it ends with, or '+inf'
-- rest: rank, expiry, end of the hold or '', end of the delay or '', hold or '',
-- head or all of the envelope; of each
--#include target_lock now parked order

local HEAD = 24     -- bytes of an envelope that may have changed since it was copied
local TAIL = 30     -- where keyspace/envelope.py's tail begins
local CREATED = 10  -- and those of them that have not, if it is the same message
local ranks, sent = {}, {}
for place = rest, #ARGV, 6 do
    ranks[#ranks + 1] = ARGV[place]
    sent[ARGV[place]] = true
end
local gone = {}
for _, rank in ipairs(redis.call('ZRANGEBYSCORE', messages, '(' .. after, upto)) do
    if not sent[rank] then
        gone[#gone + 1] = rank
    end
end
for from = 1, #gone, 1000 do  -- Lua cannot unpack more than about 8000 values
    local last = math.min(from + 999, #gone)
    redis.call('ZREM', messages, unpack(gone, from, last))
    redis.call('HDEL', bodies, unpack(gone, from, last))
end
if #ranks == 0 then
    return 1
end
local copied = redis.call('HMGET', bodies, unpack(ranks))
local by_rank, by_expiry, envelopes, at_once = {}, {}, {}, {}
local verbs = ordered()
for place, rank in ipairs(ranks) do
    local at = rest + 6 * (place - 1)
    local envelope = ARGV[at + 5]
    by_rank[2 * place - 1], by_rank[2 * place] = rank, rank
    if tonumber(ARGV[at + 2]) == nil or tonumber(ARGV[at + 2]) < PARKED then
        by_expiry[#by_expiry + 1], by_expiry[#by_expiry + 2] = ARGV[at + 1], rank
    end
    if #envelope == HEAD then
        local was = copied[place] and string.sub(copied[place], 1, CREATED)
        if was ~= string.sub(envelope, 1, CREATED) then
            -- The queue was deleted and created again meanwhile.
            return redis.error_reply('GATED into:' .. token)
        end
        if string.sub(copied[place], 1, HEAD) ~= envelope then
            envelopes[#envelopes + 1] = rank
            envelopes[#envelopes + 1] = envelope .. string.sub(copied[place], HEAD + 1)
        end
    else
        envelopes[#envelopes + 1] = rank
        envelopes[#envelopes + 1] = envelope
    end
    local score = rank
    if verbs then
        local tail = string.sub(#envelope == HEAD and copied[place] or envelope, TAIL)
        -- What a claim has held holds up its group, or is in flight; what is delayed, parked, or
        -- held by a move to another queue does not.
        local is_free = ARGV[at + 2] == '' and ARGV[at + 3] == ''
        local was_claimed = (tonumber(string.match(ARGV[at + 4], '^%d+', 33)) or 0) > 0
            and (tonumber(ARGV[at + 2]) or 0) < PARKED
            and (ARGV[at + 2] ~= '' or verbs.defer ~= verbs.leave)
        score = verbs.add(rank, tail, not is_free and not was_claimed, ARGV[at + 3])
        if not is_free and was_claimed then
            verbs.hold({rank})
        end
    end
    if ARGV[at + 2] ~= '' then
        redis.call('ZADD', claimed, ARGV[at + 2], rank)
    elseif ARGV[at + 3] ~= '' then
        redis.call('ZADD', delayed, ARGV[at + 3], rank)
    elseif score ~= '' then
        at_once[#at_once + 1] = score
        at_once[#at_once + 1] = rank
    end
    if ARGV[at + 4] ~= '' then
        redis.call('HSET', holds, rank, ARGV[at + 4])
    end
end
redis.call('ZADD', messages, unpack(by_rank))
if #by_expiry > 0 then
    redis.call('ZADD', expiry, unpack(by_expiry))
end
if #envelopes > 0 then
    redis.call('HSET', bodies, unpack(envelopes))
end
if #at_once > 0 then
    redis.call('ZADD', ready, unpack(at_once))
end
if verbs then
    verbs.added()
end
return 1
