-- Append dead letters to a queue, except those that were posted to it before.
--
-- Returns {'missing'} when there is no queue and no epoch to create one with, else
-- {'posted', how many were new, not yet listed}.
local queue            = KEYS[1]            -- hash: the queue itself
local messages         = KEYS[2]            -- zset: every message by rank
local bodies           = KEYS[3]            -- hash: rank -> envelope
local ready            = KEYS[4]            -- zset: claimable by rank
local delayed          = KEYS[5]            -- zset: delayed, by the end of the delay
local expiry           = KEYS[6]            -- zset: every message by expiry
local dead_letters     = KEYS[7]            -- hash: digest of a dead letter that was posted
local dead_letters_old = KEYS[8]            -- the same of the window before
local move_lock        = KEYS[9]            -- string: the move lock, while the queue moves
local reserved_epoch   = KEYS[10]           -- string: the reserved epoch
local sweep_index      = KEYS[11]           -- zset: queues of the slot by their next sweep
local now              = tonumber(ARGV[1])  -- ms; 0: the time of Redis
local epoch            = ARGV[2]            -- of a queue to create, or ''
local window           = tonumber(ARGV[3])  -- ms to recognise the dead letters
-- ARGV[4...]: digest, ttl, rest of the envelope; for each dead letter
--#include move_lock
--#include now
--#include envelope
--#include queue_fields

local size, encrypted, default_ttl = 0, '1', 0  -- dead letters stay as they are, of any size
--#include admit
local records, records_old = dead_letters, dead_letters_old
--#include lookup_record
--#include store_record
local values, named, skip = {}, {}, 0
local since, till
for at = 4, #ARGV, 3 do
    local stored, begun, ends = lookup_record(ARGV[at])
    if not stored then
        since, till = begun, ends
        named[#named + 1] = ARGV[at]
        named[#named + 1] = ''
        values[#values + 1] = ARGV[at + 1]
        values[#values + 1] = 0
        values[#values + 1] = ARGV[at + 2]
    end
end
if #named == 0 then
    return {'posted', 0, redis.call('HEXISTS', queue, 'unlisted')}
end
--#include append
soonest = math.min(soonest, store_record(named, since, till))
--#include note_sweep
return {'posted', count, unlisted}
