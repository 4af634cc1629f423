-- Assign a pool to a queue that has none; a second caller gets the first one's pool.
--
-- Returns the pool it has, or false when pools have changed since one was proposed, or the
-- reserved epoch is another than the one that the pool has reserved.
local catalogue      = KEYS[1]  -- hash: queue -> pool
local queues         = KEYS[2]  -- zset: queues that live in the pool
local project        = KEYS[3]  -- hash: pool -> how many queues of the project
local deleted        = KEYS[4]  -- zset: deleted queues by time
local news           = KEYS[5]  -- channel: what changed
local version        = KEYS[6]  -- string: how often pools have changed
local reserved_epoch = KEYS[7]  -- string: the reserved epoch
local queue          = ARGV[1]  -- project and name
local pool           = ARGV[2]  -- proposed
local known          = ARGV[3]  -- version of the pools that it was chosen from
local expected_epoch = ARGV[4]  -- reserved in the pool, or ''; '*': the queue has one
--#include catalogue

local current_pool = redis.call('HGET', catalogue, queue)
if current_pool then
    redis.call('ZREM', deleted, queue)
    return current_pool
end
if (redis.call('GET', version) or '0') ~= known
    or (expected_epoch ~= '*' and (redis.call('GET', reserved_epoch) or '') ~= expected_epoch) then
    return false
end
add_to_pool(pool)
redis.call('DEL', reserved_epoch)
redis.call('PUBLISH', news, 'queue ' .. queue)  -- watchers may still be subscribed elsewhere
return pool
