-- Append a chunk of a batch to a queue, unless the ledger says that it was appended before.
--
-- Returns {'missing'} when there is no queue and no epoch to create one with,
-- {'large', limit}, {'full', limit, how many, of what}, {'paused'},
-- {'plain'} when the queue wants bodies encrypted, {'known'},
-- {'other'} when it was appended with other messages, or {'posted', not yet listed}.
--#flags deny-oom
--#keys @append @room ledger ledger_ends
--#args now:number epoch size:number default_ttl:number encrypted:flag entry batch:number
--#args chunk:number digest window:number rest...
--#pubsub publish
-- epoch: of a queue to create, or ''
-- size: bytes of the chunk
-- chunk: number of the chunk in its batch
-- window: ms to keep the entry
-- rest: ttl or -1, delay or -1, rest of the envelope; for each message
--#include move_lock now pack queue_fields ledger ledger_write

local last, part, same = last_chunk(known[1])
if last == batch and part == chunk and same ~= digest then
    return {'other'}
end
if last and (last > batch or (last == batch and part >= chunk)) then
    return {'known'}
end
--#include admit
local values, skip = ARGV, rest - 1
--#include make_room append_ordered trim
write_entry(epoch, batch, chunk, digest)
soonest = math.min(soonest, now + window)
--#include note_sweep
return {'posted', unlisted}
