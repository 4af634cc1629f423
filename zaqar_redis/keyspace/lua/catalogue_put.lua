-- Set the pool of a queue, whichever it was in.
--
-- Returns 1, or 0 when it is not in `origin`.
local catalogue      = KEYS[1]  -- hash: queue -> pool
local queues         = KEYS[2]  -- zset: queues that live in the pool
local origins        = KEYS[3]  -- zset: queues that live in the pool it is in
local project        = KEYS[4]  -- hash: pool -> how many queues of the project
local deleted        = KEYS[5]  -- zset: deleted queues by time
local news           = KEYS[6]  -- channel: what changed
local reserved_epoch = KEYS[7]  -- string: the reserved epoch
local queue          = ARGV[1]  -- project and name
local pool           = ARGV[2]  -- name
local origin         = ARGV[3]  -- pool it is in, or ''
--#include catalogue

if (redis.call('HGET', catalogue, queue) or '') ~= origin then
    return 0
end
redis.call('ZREM', deleted, queue)
redis.call('DEL', reserved_epoch)
if origin == pool then
    return 1
end
if origin ~= '' then
    remove_from_pool(origin, origins)
end
add_to_pool(pool)
redis.call('PUBLISH', news, 'queue ' .. queue)
return 1
