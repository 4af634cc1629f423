-- Assign a pool to a queue that has none; a second caller gets the first one's pool.
--
-- Returns the pool it has, or false when pools have changed since one was proposed, or the
-- reserved epoch is another than the one that the pool has reserved.
--#flags deny-oom
--#keys catalogue queues project deleted news version reserved_epoch
--#args queue pool known expected_epoch
-- pool: proposed
-- known: version of the pools that it was chosen from
-- expected_epoch: reserved in the pool, or ''; '*': the queue has one
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
