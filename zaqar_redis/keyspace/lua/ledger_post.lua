-- Append a chunk of a batch to a queue, unless the ledger says that it was appended before.
--
-- Returns {'missing'} when there is no queue and no epoch to create one with,
-- {'large', limit}, {'plain'} when the queue wants bodies encrypted, {'known'},
-- {'other'} when it was appended with other messages, or {'posted', not yet listed}.
local queue          = KEYS[1]             -- hash: the queue itself
local messages       = KEYS[2]             -- zset: every message by rank
local bodies         = KEYS[3]             -- hash: rank -> envelope
local ready          = KEYS[4]             -- zset: claimable by rank
local delayed        = KEYS[5]             -- zset: delayed, by the end of the delay
local expiry         = KEYS[6]             -- zset: every message by expiry
local ledger         = KEYS[7]             -- hash: writer -> its entry in the ledger
local ledger_ends    = KEYS[8]             -- zset: entries by the time they expire
local move_lock      = KEYS[9]             -- string: the move lock, while the queue moves
local reserved_epoch = KEYS[10]            -- string: the reserved epoch
local sweep_index    = KEYS[11]            -- zset: queues of the slot by their next sweep
local now            = tonumber(ARGV[1])   -- ms; 0: the time of Redis
local epoch          = ARGV[2]             -- of a queue to create, or ''
local size           = tonumber(ARGV[3])   -- bytes of the chunk
local default_ttl    = tonumber(ARGV[4])   -- seconds
local encrypted      = ARGV[5]             -- '1': the bodies are encrypted
local entry          = ARGV[6]             -- of the ledger
local batch          = tonumber(ARGV[7])   -- number
local chunk          = tonumber(ARGV[8])   -- number of the chunk in its batch
local digest         = ARGV[9]             -- of the messages, hexadecimal
local window         = tonumber(ARGV[10])  -- ms to keep the entry
-- ARGV[11...]: ttl or -1, delay or -1, rest of the envelope; for each message
--#include move_lock
--#include now
--#include envelope
--#include queue_fields
--#include ledger
--#include ledger_write

local last, part, same = last_chunk(known[1])
if last == batch and part == chunk and same ~= digest then
    return {'other'}
end
if last and (last > batch or (last == batch and part >= chunk)) then
    return {'known'}
end
--#include admit
local values, skip = ARGV, 10
--#include append
write_entry(epoch, batch, chunk, digest)
soonest = math.min(soonest, now + window)
--#include note_sweep
return {'posted', unlisted}
