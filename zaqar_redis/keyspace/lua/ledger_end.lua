-- Note in the ledger that a writer has sent all of a batch; another chunk would be an error.
--
-- Returns 'gone' when the queue does not know the writer, 'other' when more of the batch
-- was appended, or it ended with other messages, else 'noted'.
local queue       = KEYS[1]            -- hash: the queue itself
local ledger      = KEYS[2]            -- hash: writer -> its entry in the ledger
local ledger_ends = KEYS[3]            -- zset: entries by the time they expire
local move_lock   = KEYS[4]            -- string: the move lock, while the queue moves
local sweep_index = KEYS[5]            -- zset: queues of the slot by their next sweep
local now         = tonumber(ARGV[1])  -- ms; 0: the time of Redis
local entry       = ARGV[2]            -- of the ledger
local batch       = tonumber(ARGV[3])  -- number
local chunk       = tonumber(ARGV[4])  -- number behind that of the last chunk
local digest      = ARGV[5]            -- of all chunks of the batch, hexadecimal
local window      = tonumber(ARGV[6])  -- ms to keep the entry
--#include move_lock
--#include now
--#include ledger
--#include ledger_write

local epoch = redis.call('HGET', queue, 'epoch')
local last, part, same = last_chunk(epoch)
if not last then
    return 'gone'
end
if last > batch then
    return 'noted'
end
if last == batch and (part > chunk or (part == chunk and same ~= digest)) then
    return 'other'
end
write_entry(epoch, batch, chunk, digest)
local soonest, noted = now + window, redis.call('HGET', queue, 'due')
--#include note_sweep
return 'noted'
