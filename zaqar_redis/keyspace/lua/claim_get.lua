-- Read a live claim and the messages it still holds.
--
-- Returns {now, epoch, ttl, end of the lease, then rank, envelope and hold of
-- each}, or false when there is no such claim.
--#keys queue bodies claimed holds claims leases move_lock
--#args now:number claim
--#include move_lock now hold

local ranks, ttl, lease = held_by(claim)
if not ranks then
    return false
end
local answer = {now, redis.call('HGET', queue, 'epoch'), ttl, lease}
for _, rank in ipairs(ranks) do
    answer[#answer + 1] = rank
    answer[#answer + 1] = redis.call('HGET', bodies, rank)
    answer[#answer + 1] = redis.call('HGET', holds, rank)
end
return answer
