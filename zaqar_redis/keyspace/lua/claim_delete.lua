-- Release a claim: the messages it still holds are claimable at once.
--
-- Returns how many those are.
--#keys queue ready claimed holds claims leases move_lock
--#args now:number claim
--#pubsub publish
--#include move_lock now hold

local ranks = held_by(claim)
if not ranks then
    return 0
end
for _, rank in ipairs(ranks) do
    redis.call('ZREM', claimed, rank)
    redis.call('ZADD', ready, rank, rank)
end
redis.call('ZREM', leases, claim)
redis.call('HDEL', claims, claim)
if #ranks > 0 then
    redis.call('HINCRBY', queue, 'released', #ranks)
    redis.call(publish, queue .. ':feed', #ranks)
end
return #ranks
