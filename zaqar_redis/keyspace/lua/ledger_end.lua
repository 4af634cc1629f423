-- Note in the ledger that a writer has sent all of a batch; another chunk would be an error.
--
-- Returns 'gone' when the queue does not know the writer, 'other' when more of the batch
-- was appended, or it ended with other messages, else 'noted'.
--#keys queue ledger ledger_ends move_lock sweep_index
--#args now:number entry batch:number chunk:number digest window:number
-- chunk: number behind that of the last chunk
-- window: ms to keep the entry
--#include move_lock now ledger ledger_write

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
redis.call('ZREM', ledger_ends, '')  -- a full Redis lets a script go on that has written
write_entry(epoch, batch, chunk, digest)
local soonest, noted = now + window, redis.call('HGET', queue, 'due')
--#include note_sweep
return 'noted'
