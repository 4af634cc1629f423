-- Read messages by rank as they are, claimed or not, and where the queue ends.
--
-- Returns {now, epoch, last rank given, then rank and envelope of each}. It stops at a
-- megabyte; what has expired is left out. Of a queue that is not there, the epoch that it
-- will have: so who follows it from before its first message knows it again. Without an
-- `epoch` to begin with none is said.
local queue    = KEYS[1]            -- hash: the queue itself
local messages = KEYS[2]            -- zset: every message by rank
local bodies   = KEYS[3]            -- hash: rank -> envelope
local gate     = KEYS[4]            -- string: keeps everybody out while it is there
local unborn   = KEYS[5]            -- string: the epoch that the queue is to have
local now      = tonumber(ARGV[1])  -- ms; 0: the time of Redis
local first    = ARGV[2]            -- rank to begin at
local last     = ARGV[3]            -- rank to end at
local limit    = tonumber(ARGV[4])  -- messages at most
local reverse  = ARGV[5]            -- '1': backwards, from `last` to `first`
local epoch    = ARGV[6]            -- to begin with, or ''
local kept     = ARGV[7]            -- seconds to keep it, from the last look on
--#include gate
--#include now
--#include envelope

local BYTES = 1048576  -- of envelopes in one answer: the next page goes on behind them
local known = redis.call('HMGET', queue, 'epoch', 'rank')
if not known[1] and epoch == '' then
    return {now, '', '0'}
elseif not known[1] then
    redis.call('SET', unborn, epoch, 'NX')
    redis.call('EXPIRE', unborn, kept)
    return {now, redis.call('GET', unborn), '0'}
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
