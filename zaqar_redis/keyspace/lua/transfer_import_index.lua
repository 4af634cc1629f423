-- Set the present state of messages, and drop those of the interval that are gone by now.
local messages  = KEYS[1]  -- zset: every message by rank
local bodies    = KEYS[2]  -- hash: rank -> envelope
local ready     = KEYS[3]  -- zset: claimable by rank
local claimed   = KEYS[4]  -- zset: held, by the end of the hold
local delayed   = KEYS[5]  -- zset: delayed, by the end of the delay
local expiry    = KEYS[6]  -- zset: every message by expiry
local holds     = KEYS[7]  -- hash: rank -> last claim and count
local move_lock = KEYS[8]  -- string: the move lock, while the queue moves
local token     = ARGV[1]  -- of the move
local after     = ARGV[2]  -- rank that the interval begins behind
local upto      = ARGV[3]  -- rank that it ends with, or '+inf'
-- ARGV[4...]: rank, expiry, end of the hold or '', end of the delay or '', hold or '',
-- head or all of the envelope; of each
--#include hold_move_lock

local refused = check_move_lock('into')
if refused then
    return refused
end
local HEAD = 24     -- bytes of an envelope that may have changed since it was copied
local CREATED = 10  -- and those of them that have not, if it is the same message
local ranks, sent = {}, {}
for place = 4, #ARGV, 6 do
    ranks[#ranks + 1] = ARGV[place]
    sent[ARGV[place]] = true
end
local gone = {}
for _, rank in ipairs(redis.call('ZRANGEBYSCORE', messages, '(' .. after, upto)) do
    if not sent[rank] then
        gone[#gone + 1] = rank
    end
    if #gone == 1000 then
        redis.call('ZREM', messages, unpack(gone))
        redis.call('HDEL', bodies, unpack(gone))
        gone = {}
    end
end
if #gone > 0 then
    redis.call('ZREM', messages, unpack(gone))
    redis.call('HDEL', bodies, unpack(gone))
end
if #ranks == 0 then
    return 1
end
local copied = redis.call('HMGET', bodies, unpack(ranks))
local by_rank, by_expiry, envelopes, at_once = {}, {}, {}, {}
for place, rank in ipairs(ranks) do
    local at = 6 * place - 2
    local envelope = ARGV[at + 5]
    by_rank[2 * place - 1], by_rank[2 * place] = rank, rank
    by_expiry[2 * place - 1], by_expiry[2 * place] = ARGV[at + 1], rank
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
    if ARGV[at + 2] ~= '' then
        redis.call('ZADD', claimed, ARGV[at + 2], rank)
    elseif ARGV[at + 3] ~= '' then
        redis.call('ZADD', delayed, ARGV[at + 3], rank)
    else
        at_once[#at_once + 1] = rank
        at_once[#at_once + 1] = rank
    end
    if ARGV[at + 4] ~= '' then
        redis.call('HSET', holds, rank, ARGV[at + 4])
    end
end
redis.call('ZADD', messages, unpack(by_rank))
redis.call('ZADD', expiry, unpack(by_expiry))
if #envelopes > 0 then
    redis.call('HSET', bodies, unpack(envelopes))
end
if #at_once > 0 then
    redis.call('ZADD', ready, unpack(at_once))
end
return 1
