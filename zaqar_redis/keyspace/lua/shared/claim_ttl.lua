-- API: a claim lasts a minute at least, unless the queue says otherwise.
local CLAIM_TTL_MIN = 60
local least_ttl = ttl < CLAIM_TTL_MIN and redis.call('HGET', queue, 'min_claim_ttl')
least_ttl = tonumber(least_ttl or CLAIM_TTL_MIN)
