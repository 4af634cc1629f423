-- Replace a queue's metadata, if nobody else changed it meanwhile.
--
-- Returns 'updated', 'changed' or 'missing'.
--#keys queue move_lock
--#args expected metadata rest...
-- expected: the metadata as it was read, or '' for any
-- rest: name and value of each setting that the verbs go by
--#include move_lock

local stored = redis.call('HGET', queue, 'metadata')
if not stored then
    return 'missing'
elseif expected ~= '' and stored ~= expected then
    return 'changed'
end
redis.call('HDEL', queue, 'ttl', 'delay', 'size', 'sealed', 'max_claims', 'dead_queue', 'dead_ttl',
    'on_expiry', 'window', 'history', 'min_claim_ttl', 'redelivery', 'limits',
    'dedup')
redis.call('HSET', queue, 'metadata', metadata, unpack(ARGV, rest))
return 'updated'
