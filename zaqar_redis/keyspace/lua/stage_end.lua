-- Record in the ledger that a batch is published, and delete all else that the writer staged.
--
-- Returns 1, or 0 when the ledger has it already: what waits then is of a later batch.
--#keys queue ledger ledger_ends stages move_lock sweep_index
--#args now:number entry batch:number window:number
-- entry: of the ledger; also names the writer
-- window: ms to keep the entry
--#include move_lock now ledger ledger_write stages

local epoch = redis.call('HGET', queue, 'epoch')
local last = last_chunk(epoch)
if last and last >= batch then
    return 0
end
if epoch then  -- else there was nothing to publish
    redis.call('ZREM', ledger_ends, '')  -- a full Redis lets a script go on that has written
    write_entry(epoch, batch, 0, '00')
    local soonest, noted = now + window, redis.call('HGET', queue, 'due')
--#include note_sweep
end
drop(entry)
return 1
