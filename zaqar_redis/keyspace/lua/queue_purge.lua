-- Remove every message, claim and delivery; the queue, its metadata and its ranks stay.
--#keys queue @content deliveries pending pending_ids pending_due pending_ends delivery_lease
--#keys move_lock
--#include move_lock

local count = redis.call('ZCARD', messages)
local removed = redis.call('UNLINK', messages, bodies, ready, claimed, delayed, expiry, holds,
    order, groups, claims, leases, spent, deliveries, pending, pending_ids, pending_due,
    pending_ends)
-- The notifier that has the queue forgets what it has read; the stream's ids may begin anew.
redis.call('DEL', delivery_lease)
if redis.call('HEXISTS', queue, 'bytes') == 1 then
    redis.call('HSET', queue, 'bytes', 0)
end
if count > 0 then
    redis.call('HINCRBY', queue, 'purged', count)
end
return removed
