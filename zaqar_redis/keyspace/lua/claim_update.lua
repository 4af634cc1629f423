-- Renew a live claim: its lease starts anew, and its messages outlive it.
--
-- Returns 1, or 0 when there is no such claim.
--#keys bodies claimed expiry holds claims leases move_lock sweep_index queue
--#args now:number claim ttl:number grace:number
--#include move_lock now envelope hold claim_record

local ranks, _, _, record = held_by(claim)
if not ranks then
    return 0
end
redis.call('ZREM', leases, claim)  -- a full Redis lets a script go on that has written
local ends = now + ttl * 1000
for _, rank in ipairs(ranks) do
    redis.call('ZADD', claimed, ends, rank)
    local envelope = redis.call('HGET', bodies, rank)
    if expiry_of(envelope) < ends then
        redis.call('HSET', bodies, rank, prolonged(envelope, ends + grace * 1000, ttl + grace))
        redis.call('ZADD', expiry, ends + grace * 1000, rank)
    end
end
redis.call('ZADD', leases, ends, claim)
redis.call('HSET', claims, claim, claim_record(ttl, client_of_claim(record), ranks))
local soonest, noted = ends, redis.call('HGET', queue, 'due')
--#include note_sweep
return 1
