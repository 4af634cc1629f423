-- Read the present state of messages: rank, expiry, end of the hold or '', end of the
-- delay or '', hold or '', head of the envelope or, behind the rank that was read
-- last while the queue was in use, all of it; of each.
local messages    = KEYS[1]            -- zset: every message by rank
local bodies      = KEYS[2]            -- hash: rank -> envelope
local claimed     = KEYS[3]            -- zset: held, by the end of the hold
local delayed     = KEYS[4]            -- zset: delayed, by the end of the delay
local expiry      = KEYS[5]            -- zset: every message by expiry
local holds       = KEYS[6]            -- hash: rank -> last claim and count
local move_lock   = KEYS[7]            -- string: the move lock, while the queue moves
local token       = ARGV[1]            -- of the move
local lease       = tonumber(ARGV[2])  -- ms
local after       = ARGV[3]            -- rank to go on behind
local limit       = tonumber(ARGV[4])  -- messages at most
local copied_rank = tonumber(ARGV[5])  -- rank of the last message that was copied already
--#include hold_move_lock

local refused = check_move_lock('out')
if refused then
    return refused
end
redis.call('PEXPIRE', move_lock, lease)
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
    page[at - 5], page[at - 4] = rank, expires[place]
    page[at - 3], page[at - 2] = held[place] or '', later[place] or ''
    page[at - 1] = last[place] or ''
    page[at] = tonumber(rank) > copied_rank and envelope or string.sub(envelope, 1, 24)
end
return page
