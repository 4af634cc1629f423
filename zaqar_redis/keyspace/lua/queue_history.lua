-- Read messages by rank as they are, claimed or not, and the last rank of the queue.
--
-- Returns {now, epoch, last rank given, then rank and envelope of each}. It stops at a
-- megabyte; what has expired is left out. When the queue does not exist, the epoch is its
-- reserved one, so that a watcher from before its first message recognises it. Without an
-- `epoch` to reserve it is empty.
local queue          = KEYS[1]            -- hash: the queue itself
local messages       = KEYS[2]            -- zset: every message by rank
local bodies         = KEYS[3]            -- hash: rank -> envelope
local move_lock      = KEYS[4]            -- string: the move lock, while the queue moves
local reserved_epoch = KEYS[5]            -- string: the reserved epoch
local now            = tonumber(ARGV[1])  -- ms; 0: the time of Redis
local first          = ARGV[2]            -- rank to begin at
local last           = ARGV[3]            -- rank to end at
local limit          = tonumber(ARGV[4])  -- messages at most
local reverse        = ARGV[5]            -- '1': backwards, from `last` to `first`
local epoch          = ARGV[6]            -- to reserve, or ''
local kept           = ARGV[7]            -- seconds to keep it, from the last read on
--#include move_lock
--#include now
--#include envelope

local BYTES = 1048576  -- of envelopes in one answer: the next page goes on behind them
local known = redis.call('HMGET', queue, 'epoch', 'rank')
if not known[1] and epoch == '' then
    return {now, '', '0'}
elseif not known[1] then
    redis.call('SET', reserved_epoch, epoch, 'NX')
    redis.call('EXPIRE', reserved_epoch, kept)
    return {now, redis.call('GET', reserved_epoch), '0'}
end
local page = {now, known[1], known[2] or '0'}
local ranks = {}
if limit > 0 then
    if reverse == '1' then
        ranks = redis.call('ZREVRANGEBYSCORE', messages, last, first, 'LIMIT', 0, limit)
    else
        ranks = redis.call('ZRANGEBYSCORE', messages, first, last, 'LIMIT', 0, limit)
    end
end
local size = 0
for _, rank in ipairs(ranks) do
    local envelope = redis.call('HGET', bodies, rank)
    size = size + #envelope
    if expiry_of(envelope) > now then
        page[#page + 1] = rank
        page[#page + 1] = envelope
    end
    if size >= BYTES then
        break
    end
end
return page
