-- Append messages that another queue's subscription forwards, but for those that were appended.
--
-- Returns {'missing'} when there is no queue and no epoch to create one with, {'large', limit},
-- {'full', limit, how many, of what}, {'paused'},
-- {'plain'} when the queue wants bodies encrypted, or {'posted', not yet listed}.
--#flags deny-oom
--#keys @append @room ledger ledger_ends
--#args now:number epoch size:number encrypted:flag entry window:number rest...
--#pubsub publish
-- epoch: of a queue to create, or ''
-- size: bytes of the messages
-- entry: of the subscription in the ledger: the last rank of its queue that was appended
-- window: ms to keep the entry
-- rest: rank in its queue, ttl, rest of the envelope; for each message
--#include move_lock now pack queue_fields ledger ledger_write

local last = known[1] and last_chunk(known[1]) or 0
local default_ttl = 0
local values, skip = {}, 0
for at = rest, #ARGV, 3 do
    if tonumber(ARGV[at]) > last then
        values[#values + 1] = ARGV[at + 1]
        values[#values + 1] = 0
        values[#values + 1] = ARGV[at + 2]
    end
end
if #values == 0 then
    return {'posted', redis.call('HEXISTS', queue, 'unlisted')}
end
--#include admit make_room append_ordered trim
write_entry(epoch, tonumber(ARGV[#ARGV - 2]), 0, '0')
soonest = math.min(soonest, now + window)
--#include note_sweep
return {'posted', unlisted}
