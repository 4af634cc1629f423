-- Delete every message that a live claim still holds, and the claim.
--
-- Returns how many those were, or false when there is no such claim.
--#keys @message claims leases move_lock
--#args now:number claim
--#include move_lock now forget hold

local ranks = held_by(claim)
if not ranks then
    return false
end
for from = 1, #ranks, SETTLE do
    forget({unpack(ranks, from, math.min(from + SETTLE - 1, #ranks))})
end
redis.call('ZREM', leases, claim)
redis.call('HDEL', claims, claim)
return #ranks
