-- Remove the catalogue entry of a deleted queue. Returns 1 if that was done, else 0.
local catalogue = KEYS[1]  -- hash: queue -> pool
local queues    = KEYS[2]  -- zset: queues that live in the pool
local project   = KEYS[3]  -- hash: pool -> how many queues of the project
local deleted   = KEYS[4]  -- zset: deleted queues by time
local moves     = KEYS[5]  -- hash: queue -> move
local news      = KEYS[6]  -- channel: what changed
local queue     = ARGV[1]  -- project and name
local pool      = ARGV[2]  -- where it was
--#include catalogue

if redis.call('HGET', catalogue, queue) ~= pool or not redis.call('ZSCORE', deleted, queue)
    or redis.call('HEXISTS', moves, queue) == 1 then
    return 0
end
redis.call('HDEL', catalogue, queue)
redis.call('ZREM', deleted, queue)
remove_from_pool(pool, queues)
redis.call('PUBLISH', news, 'queue ' .. queue)
return 1
