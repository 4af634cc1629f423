-- Remove every message and claim; the queue, its metadata and its ranks stay.
--#keys queue @content move_lock
--#include move_lock

local count = redis.call('ZCARD', messages)
local removed = redis.call('UNLINK', messages, bodies, ready, claimed, delayed, expiry, holds,
    claims, leases, spent)
if count > 0 then
    redis.call('HINCRBY', queue, 'purged', count)
end
return removed
