-- Remove the catalogue entry of a deleted queue. Returns 1 if that was done, else 0.
--#keys catalogue queues project deleted moves news
--#args queue pool
-- pool: where it was
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
