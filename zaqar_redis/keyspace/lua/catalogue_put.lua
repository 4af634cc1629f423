-- Set the pool of a queue, whichever it was in.
--
-- Returns 1, or 0 when it is not in `origin`.
--#keys catalogue queues origins project deleted news reserved_epoch
--#args queue pool origin
-- origin: pool it is in, or ''
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
