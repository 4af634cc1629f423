-- Delete every message that a live claim still holds, and the claim.
--
-- Returns how many those were, or false when there is no such claim.
--#keys queue @message claims leases move_lock
--#args now:number claim
--#pubsub publish
--#include move_lock now order forget hold

local ranks = held_by(claim)
if not ranks then
    return false
end
for from = 1, #ranks, SETTLE do
    forget({unpack(ranks, from, math.min(from + SETTLE - 1, #ranks))})
end
if opened > 0 then
    redis.call(publish, queue .. ':feed', opened)
end
redis.call('ZREM', leases, claim)
redis.call('HDEL', claims, claim)
return #ranks
