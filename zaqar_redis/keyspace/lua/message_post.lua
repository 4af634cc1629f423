-- Append messages to a queue, in the order given, under the next ranks.
--
-- Returns {'missing'} when there is no queue and no epoch to make one with,
-- {'large', limit}, {'plain'} when the queue wants bodies encrypted, {'reused'}
-- when the retry token came with other content, else
-- {'posted' or 'replayed', epoch, first rank, how many, not yet listed}.
local queue           = KEYS[1]            -- hash: the queue itself
local messages        = KEYS[2]            -- zset: every message by rank
local bodies          = KEYS[3]            -- hash: rank -> envelope
local ready           = KEYS[4]            -- zset: claimable by rank
local delayed         = KEYS[5]            -- zset: delayed, by the end of the delay
local expiry          = KEYS[6]            -- zset: every message by expiry
local idempotency     = KEYS[7]            -- hash: retry token -> the answer given
local idempotency_old = KEYS[8]            -- the same of the window before
local gate            = KEYS[9]            -- string: keeps everybody out while it is there
local unborn          = KEYS[10]           -- string: the epoch that the queue is to have
local due             = KEYS[11]           -- zset: queues of the slot by when one is due
local now             = tonumber(ARGV[1])  -- ms; 0: the time of Redis
local epoch           = ARGV[2]            -- of the queue to make, or ''
local size            = ARGV[3]            -- bytes of the request
local default_ttl     = tonumber(ARGV[4])  -- seconds
local sealed          = ARGV[5]            -- '1': the bodies are encrypted
local retry           = ARGV[6]            -- token, or ''
local fingerprint     = ARGV[7]            -- of the request
local window          = tonumber(ARGV[8])  -- ms to know the token, if the queue says nothing
-- ARGV[9...]: ttl or -1, delay or -1, rest of the envelope; for each message
--#include gate
--#include now
--#include envelope
--#include known

local kept, since, till
if retry ~= '' and known[1] then
    local records, records_old = idempotency, idempotency_old
--#include recorded
    kept, since, till = recorded(retry)
    local first, number, print = string.match(kept or '', '^(%d+) (%d+) (.*)$')
    if first and print ~= fingerprint then
        return {'reused'}
    elseif first then
        return {'replayed', known[1], tonumber(first), tonumber(number), 0}
    end
end
--#include admit
local values, skip = ARGV, 8
--#include append
if retry ~= '' then
    local records, records_old = idempotency, idempotency_old
    local own = redis.call('HGET', queue, 'window')
    window = own and own * 1000 or window
--#include record
    local answer = string.format('%.0f %.0f ', first, count) .. fingerprint
    soonest = math.min(soonest, record({retry, answer}, since, till))
end
--#include due
return {'posted', epoch, first, count, unlisted}
