-- The shortest TTL of a claim: what the queue says, or else `least`; 0: none.
local least_ttl = ttl < least and tonumber(redis.call('HGET', queue, 'min_claim_ttl') or least) or 0
