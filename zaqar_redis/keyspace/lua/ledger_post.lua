-- Append a chunk of a batch to a queue, unless the ledger says that it came in before.
--
-- Returns {'missing'} when there is no queue and no epoch to make one with,
-- {'large', limit}, {'plain'} when the queue wants bodies encrypted, {'known'},
-- {'other'} when it came in with other messages, or {'posted', not yet listed}.
local queue       = KEYS[1]             -- hash: the queue itself
local messages    = KEYS[2]             -- zset: every message by rank
local bodies      = KEYS[3]             -- hash: rank -> envelope
local ready       = KEYS[4]             -- zset: claimable by rank
local delayed     = KEYS[5]             -- zset: delayed, by the end of the delay
local expiry      = KEYS[6]             -- zset: every message by expiry
local ledger      = KEYS[7]             -- hash: writer -> its entry in the ledger
local ledger_ends = KEYS[8]             -- zset: entries by the time they are forgotten
local gate        = KEYS[9]             -- string: keeps everybody out while it is there
local unborn      = KEYS[10]            -- string: the epoch that the queue is to have
local due         = KEYS[11]            -- zset: queues of the slot by when one is due
local now         = tonumber(ARGV[1])   -- ms; 0: the time of Redis
local epoch       = ARGV[2]             -- of the queue to make, or ''
local size        = tonumber(ARGV[3])   -- bytes of the chunk
local default_ttl = tonumber(ARGV[4])   -- seconds
local sealed      = ARGV[5]             -- '1': the bodies are encrypted
local entry       = ARGV[6]             -- of the ledger
local batch       = tonumber(ARGV[7])   -- number
local chunk       = tonumber(ARGV[8])   -- number of the chunk in its batch
local digest      = ARGV[9]             -- of the messages, hexadecimal
local window      = tonumber(ARGV[10])  -- ms to keep the entry
-- ARGV[11...]: ttl or -1, delay or -1, rest of the envelope; for each message
--#include gate
--#include now
--#include envelope
--#include known
--#include ledger
--#include ledger_write

local last, part, same = written(known[1])
if last == batch and part == chunk and same ~= digest then
    return {'other'}
end
if last and (last > batch or (last == batch and part >= chunk)) then
    return {'known'}
end
--#include admit
local values, skip = ARGV, 10
--#include append
write(epoch, batch, chunk, digest)
soonest = math.min(soonest, now + window)
--#include due
return {'posted', unlisted}
