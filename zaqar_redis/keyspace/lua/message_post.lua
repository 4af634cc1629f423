-- Append messages to a queue, in the order given, under the next ranks.
--
-- Returns {'missing'} when there is no queue and no epoch to create one with,
-- {'large', limit}, {'full', limit, how many}, {'paused'},
-- {'plain'} when the queue wants bodies encrypted, {'reused'}
-- when the idempotency key came with other content, else
-- {'posted' or 'replayed', epoch, first rank, how many, not yet listed}.
--#flags deny-oom
--#keys @append @room idempotency idempotency_old
--#args now:number epoch size default_ttl:number encrypted:flag idempotency_key fingerprint
--#args window:number rest...
--#pubsub publish
-- epoch: of a queue to create, or ''
-- size: bytes of the request
-- idempotency_key: digest, or ''
-- window: ms to store the key, if the queue sets none
-- rest: ttl or -1, delay or -1, rest of the envelope; for each message
--#include move_lock now envelope queue_fields

local stored, since, till
if idempotency_key ~= '' and known[1] then
    local records, records_old = idempotency, idempotency_old
--#include lookup_record
    stored, since, till = lookup_record(idempotency_key)
    local first, number, print = string.match(stored or '', '^(%d+) (%d+) (.*)$')
    if first and print ~= fingerprint then
        return {'reused'}
    elseif first then
        return {'replayed', known[1], tonumber(first), tonumber(number), 0}
    end
end
--#include admit
local values, skip = ARGV, rest - 1
--#include make_room append trim
if idempotency_key ~= '' then
    local records, records_old = idempotency, idempotency_old
    local own = redis.call('HGET', queue, 'window')
    window = own and own * 1000 or window
--#include store_record
    local answer = string.format('%.0f %.0f ', first, count) .. fingerprint
    soonest = math.min(soonest, store_record({idempotency_key, answer}, since, till))
end
--#include note_sweep
return {'posted', epoch, first, count, unlisted}
