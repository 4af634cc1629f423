-- Claim the oldest claimable messages: nobody else gets them until the claim ends.
--
-- Returns {now, epoch or false, ask again (1) or not, ms until any may be
-- claimable or false, {rank, envelope, hold; of each}, {the same of the dead
-- letters}, dead-letter queue, their ttl}; {now, false, seconds at least} when the ttl is
-- shorter. Without messages no claim is created.
--#keys queue @message claims leases move_lock sweep_index
--#args now:number claim client ttl:number least:number grace:number limit:number
--#args dead_letter_claim traced:flag
--#pubsub publish
-- claim, dead_letter_claim: 32 characters each; the second one holds dead letters
-- traced: note when a message is claimed first
-- least: seconds, unless the queue says otherwise
-- client: who creates it, as records of claims have it, or ''
--#include move_lock now envelope settle claim_record claim_ttl

if ttl < least_ttl then
    return {now, false, least_ttl}
end
local found, ranks, leased, holders = {}, {}, {}, {}
local at = 0
local ends = now + ttl * 1000
local lease = string.format('%.0f', ends)  -- as text, once: Redis is slow to write numbers
local first_now = traced and string.format(' %.0f', now) or ''
local function keep(rank, envelope, count, before)
    if expiry_of(envelope) < ends then
        -- A claimed message must outlive its claim by the grace.
        envelope = prolonged(envelope, ends + grace * 1000, ttl + grace)
        redis.call('HSET', bodies, rank, envelope)
        redis.call('ZADD', expiry, ends + grace * 1000, rank)
    end
    local hold = claim .. count .. (before and string.match(before, ' .*$', 33) or first_now)
    at = at + 1
    ranks[at] = rank
    leased[2 * at - 1], leased[2 * at] = lease, rank
    holders[2 * at - 1], holders[2 * at] = rank, hold
    found[3 * at - 2], found[3 * at - 1], found[3 * at] = rank, envelope, hold
end
--#include take_ready

if taken > 0 then
    redis.call('ZADD', claimed, unpack(leased))
    redis.call('HSET', holds, unpack(holders))
    redis.call('ZADD', leases, lease, claim)
    redis.call('HSET', claims, claim, claim_record(ttl, client, ranks))
    soonest = math.min(soonest, ends)
    redis.call('HINCRBY', queue, 'claimed', taken)
end
--#include return_taken
