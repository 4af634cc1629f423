-- Renew a live claim: its lease starts anew, and its messages outlive it.
--
-- With names, only the leases of these messages start anew; the claim lasts as long as the longest
-- of them. Returns {'renewed', epoch, rank of each}, {'missing'} when there is no such claim, or
-- {'short', seconds at least}.
--#keys queue bodies claimed expiry holds claims leases move_lock sweep_index
--#args now:number claim ttl:number least:number grace:number rest...
-- least: seconds, unless the queue says otherwise
-- rest: epoch and rank of each; none: all
--#include move_lock now envelope hold claim_record named claim_ttl

if ttl < least_ttl then
    return {'short', least_ttl}
end
local held, lasted, lease, record = held_by(claim)
if not held then
    return {'missing'}
end
redis.call('ZREM', leases, claim)  -- a full Redis lets a script go on that has written
local epoch = redis.call('HGET', queue, 'epoch')
local ranks = named(held, epoch, ARGV, rest)
local ends = now + ttl * 1000
for _, rank in ipairs(ranks) do
    redis.call('ZADD', claimed, ends, rank)
    local envelope = redis.call('HGET', bodies, rank)
    if expiry_of(envelope) < ends then
        redis.call('HSET', bodies, rank, prolonged(envelope, ends + grace * 1000, ttl + grace))
        redis.call('ZADD', expiry, ends + grace * 1000, rank)
    end
end
if ARGV[rest] and (ends < lease or #ranks == 0) then
    ttl = lasted
else
    lease = ends
end
redis.call('ZADD', leases, lease, claim)
redis.call('HSET', claims, claim, claim_record(ttl, client_of_claim(record), held))
local soonest, noted = ends, redis.call('HGET', queue, 'due')
--#include note_sweep
return {'renewed', epoch, unpack(ranks)}
