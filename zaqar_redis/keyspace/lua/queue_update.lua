-- Replace a queue's metadata, if nobody else changed it meanwhile.
--
-- Returns 'updated', 'changed' or 'missing'.
local queue     = KEYS[1]  -- hash: the queue itself
local move_lock = KEYS[2]  -- string: the move lock, while the queue moves
local expected  = ARGV[1]  -- the metadata as it was read, or '' for any
local metadata  = ARGV[2]  -- JSON object
-- ARGV[3...]: name and value of each setting that the verbs go by
--#include move_lock

local stored = redis.call('HGET', queue, 'metadata')
if not stored then
    return 'missing'
elseif expected ~= '' and stored ~= expected then
    return 'changed'
end
redis.call('HDEL', queue, 'ttl', 'delay', 'size', 'sealed', 'max_claims', 'dead_queue', 'dead_ttl',
    'window')
redis.call('HSET', queue, 'metadata', metadata, unpack(ARGV, 3))
return 'updated'
