-- Append messages to a queue, in the order given, under the next ranks.
--
-- Returns {'missing'} when there is no queue and no epoch to make one with,
-- {'large', limit}, {'plain'} when the queue wants bodies encrypted, {'reused'}
-- when the retry token came with other content, else
-- {'posted' or 'replayed', epoch, first rank, how many, not yet listed}.
local queue       = KEYS[1]             -- hash: the queue itself
local messages    = KEYS[2]             -- zset: every message by rank
local bodies      = KEYS[3]             -- hash: rank -> envelope
local ready       = KEYS[4]             -- zset: claimable by rank
local delayed     = KEYS[5]             -- zset: delayed, by the end of the delay
local expiry      = KEYS[6]             -- zset: every message by expiry
local receipts    = KEYS[7]             -- hash: retry token -> the answer given
local lapses      = KEYS[8]             -- zset: retry tokens by the time they are forgotten
local gate        = KEYS[9]             -- string: keeps everybody out while it is there
local now         = tonumber(ARGV[1])   -- ms; 0: the time of Redis
local epoch       = ARGV[2]             -- of the queue to make, or ''
local size        = tonumber(ARGV[3])   -- bytes of the request
local default_ttl = tonumber(ARGV[4])   -- seconds
local sealed      = ARGV[5]             -- '1': the bodies are encrypted
local retry       = ARGV[6]             -- token, or ''
local fingerprint = ARGV[7]             -- of the request
local window      = tonumber(ARGV[8])   -- ms to keep the receipt
-- ARGV[9...]: ttl or -1, delay or -1, rest of the envelope; for each message
--#include gate
--#include now
--#include envelope
--#include receipts

local BATCH = 1000  -- messages a command: Lua cannot unpack more than about 8000 values
local count = (#ARGV - 8) / 3
local known = redis.call('HMGET', queue, 'epoch', 'ttl', 'delay', 'size', 'sealed', 'unlisted')
if retry ~= '' then
    forget_receipts()
    local kept = redis.call('HGET', receipts, retry)
    if kept and tonumber(redis.call('ZSCORE', lapses, retry)) > now then
        local life, print, first, number = string.match(kept, '^(%x+) (%x+) (%d+) (%d+)$')
        if life == known[1] then
            if print ~= fingerprint then
                return {'reused'}
            end
            return {'replayed', life, tonumber(first), tonumber(number), 0}
        end
    end
end
if known[4] and size > tonumber(known[4]) then
    return {'large', tonumber(known[4])}
end
if known[5] and sealed ~= '1' then
    return {'plain'}
end
if known[1] then
    epoch = known[1]
elseif epoch == '' then
    return {'missing'}
else
    redis.call('HSET', queue, 'epoch', epoch, 'created', now, 'metadata', '{}', 'unlisted', 1)
    known[6] = 1
end
default_ttl = tonumber(known[2]) or default_ttl

local first = redis.call('HINCRBY', queue, 'rank', count) - count + 1
local ttl, delay, head, expires
for from = 1, count, BATCH do
    local by_rank, by_expiry, envelopes, at_once = {}, {}, {}, {}
    for place = from, math.min(from + BATCH - 1, count) do
        local own_ttl, own_delay = tonumber(ARGV[3 * place + 6]), tonumber(ARGV[3 * place + 7])
        if own_ttl < 0 then
            own_ttl = default_ttl
        end
        if not known[3] then
            own_delay = 0  -- only a queue with a default delay knows delays
        elseif own_delay < 0 then
            own_delay = tonumber(known[3])
        end
        if own_ttl ~= ttl or own_delay ~= delay then
            ttl, delay = own_ttl, own_delay
            head = head_of(now, now + ttl * 1000, ttl, delay)
            expires = string.format('%.0f', now + ttl * 1000)
        end
        -- As text: Redis takes its time to write a number out, and would do it seven times.
        local rank = string.format('%.0f', first + place - 1)
        local at = 2 * (place - from) + 1
        by_rank[at], by_rank[at + 1] = rank, rank
        by_expiry[at], by_expiry[at + 1] = expires, rank
        envelopes[at], envelopes[at + 1] = rank, head .. ARGV[3 * place + 8]
        if delay > 0 then
            redis.call('ZADD', delayed, now + delay * 1000, rank)
        else
            at_once[#at_once + 1] = rank
            at_once[#at_once + 1] = rank
        end
    end
    redis.call('ZADD', messages, unpack(by_rank))
    redis.call('ZADD', expiry, unpack(by_expiry))
    redis.call('HSET', bodies, unpack(envelopes))
    if #at_once > 0 then
        redis.call('ZADD', ready, unpack(at_once))
    end
end
if retry ~= '' then
    local answer = epoch .. ' ' .. fingerprint .. ' ' .. string.format('%.0f %.0f', first, count)
    redis.call('HSET', receipts, retry, answer)
    redis.call('ZADD', lapses, now + window, retry)
end
redis.call('PUBLISH', queue .. ':feed', count)
return {'posted', epoch, first, count, known[6] and 1 or 0}
