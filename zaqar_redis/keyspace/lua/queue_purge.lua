-- Remove every message, claim and delivery; the queue, its metadata and its ranks stay.
--#keys queue @content deliveries pending pending_ids pending_due pending_ends move_lock
--#include move_lock

local count = redis.call('ZCARD', messages)
local removed = redis.call('UNLINK', messages, bodies, ready, claimed, delayed, expiry, holds,
    claims, leases, spent, deliveries, pending, pending_ids, pending_due, pending_ends)
if count > 0 then
    redis.call('HINCRBY', queue, 'purged', count)
end
return removed
