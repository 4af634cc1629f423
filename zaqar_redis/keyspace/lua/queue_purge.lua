-- Remove every message and claim; the queue, its metadata and its ranks stay.
--#keys @content move_lock
--#include move_lock

return redis.call('UNLINK', messages, bodies, ready, claimed, delayed, expiry, holds, claims,
    leases, spent)
