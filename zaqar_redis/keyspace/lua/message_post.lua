-- Append messages to a queue, in the order given, under the next ranks.
--
-- Returns {'missing'} when there is no queue and no epoch to create one with,
-- {'large', limit}, {'plain'} when the queue wants bodies encrypted, {'reused'}
-- when the idempotency key came with other content, else
-- {'posted' or 'replayed', epoch, first rank, how many, not yet listed}.
local queue           = KEYS[1]            -- hash: the queue itself
local messages        = KEYS[2]            -- zset: every message by rank
local bodies          = KEYS[3]            -- hash: rank -> envelope
local ready           = KEYS[4]            -- zset: claimable by rank
local delayed         = KEYS[5]            -- zset: delayed, by the end of the delay
local expiry          = KEYS[6]            -- zset: every message by expiry
local idempotency     = KEYS[7]            -- hash: idempotency key digest -> the answer given
local idempotency_old = KEYS[8]            -- the same of the window before
local move_lock       = KEYS[9]            -- string: the move lock, while the queue moves
local reserved_epoch  = KEYS[10]           -- string: the reserved epoch
local sweep_index     = KEYS[11]           -- zset: queues of the slot by their next sweep
local now             = tonumber(ARGV[1])  -- ms; 0: the time of Redis
local epoch           = ARGV[2]            -- of a queue to create, or ''
local size            = ARGV[3]            -- bytes of the request
local default_ttl     = tonumber(ARGV[4])  -- seconds
local encrypted       = ARGV[5]            -- '1': the bodies are encrypted
local idempotency_key = ARGV[6]            -- digest, or ''
local fingerprint     = ARGV[7]            -- of the request
local window          = tonumber(ARGV[8])  -- ms to store the key, if the queue sets none
-- ARGV[9...]: ttl or -1, delay or -1, rest of the envelope; for each message
--#include move_lock
--#include now
--#include envelope
--#include queue_fields

local stored, since, till
if idempotency_key ~= '' and known[1] then
    local records, records_old = idempotency, idempotency_old
--#include lookup_record
    stored, since, till = lookup_record(idempotency_key)
    local first, number, print = string.match(stored or '', '^(%d+) (%d+) (.*)$')
    if first and print ~= fingerprint then
        return {'reused'}
    elseif first then
        return {'replayed', known[1], tonumber(first), tonumber(number), 0}
    end
end
--#include admit
local values, skip = ARGV, 8
--#include append
if idempotency_key ~= '' then
    local records, records_old = idempotency, idempotency_old
    local own = redis.call('HGET', queue, 'window')
    window = own and own * 1000 or window
--#include store_record
    local answer = string.format('%.0f %.0f ', first, count) .. fingerprint
    soonest = math.min(soonest, store_record({idempotency_key, answer}, since, till))
end
--#include note_sweep
return {'posted', epoch, first, count, unlisted}
