-- Append dead letters to a queue, except those that were posted to it before.
--
-- Returns {'missing'} when there is no queue and no epoch to create one with, else
-- {'posted', how many were new, not yet listed}.
--#keys @append order groups reserved_epoch dead_letters dead_letters_old
--#args now:number epoch window:number rest...
--#pubsub publish
-- epoch: of a queue to create, or ''
-- window: ms to recognise the dead letters
-- rest: digest, ttl, rest of the envelope; for each dead letter
--#include move_lock now pack queue_fields

redis.call('ZREM', expiry, '')  -- a full Redis lets a script go on that has written
local size, encrypted, default_ttl = 0, true, 0  -- dead letters stay as they are, of any size
--#include admit
local records, records_old = dead_letters, dead_letters_old
--#include lookup_record store_record
local values, named, skip = {}, {}, 0
local since, till
for at = rest, #ARGV, 3 do
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
--#include append_ordered
soonest = math.min(soonest, store_record(named, since, till))
--#include note_sweep
return {'posted', count, unlisted}
