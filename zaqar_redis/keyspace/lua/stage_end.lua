-- Record in the ledger that a batch is published, and delete all else that the writer staged.
--
-- Returns 1, or 0 when the ledger has it already: what waits then is of a later batch.
local queue       = KEYS[1]            -- hash: the queue itself
local ledger      = KEYS[2]            -- hash: writer -> its entry in the ledger
local ledger_ends = KEYS[3]            -- zset: entries by the time they expire
local stages      = KEYS[4]            -- hash: chunks that wait, and what is being published
local move_lock   = KEYS[5]            -- string: the move lock, while the queue moves
local sweep_index = KEYS[6]            -- zset: queues of the slot by their next sweep
local now         = tonumber(ARGV[1])  -- ms; 0: the time of Redis
local entry       = ARGV[2]            -- of the ledger; also names the writer
local batch       = tonumber(ARGV[3])  -- number
local window      = tonumber(ARGV[4])  -- ms to keep the entry
--#include move_lock
--#include now
--#include ledger
--#include ledger_write
--#include stages

local epoch = redis.call('HGET', queue, 'epoch')
local last = last_chunk(epoch)
if last and last >= batch then
    return 0
end
if epoch then  -- else there was nothing to publish
    write_entry(epoch, batch, 0, '00')
    local soonest, noted = now + window, redis.call('HGET', queue, 'due')
--#include note_sweep
end
drop(entry)
return 1
