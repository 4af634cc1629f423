-- Enter a queue that is in no pool into one.
local function add_to_pool(pool)
    redis.call('HSET', catalogue, queue, pool)
    redis.call('ZADD', queues, 0, queue)
    redis.call('HINCRBY', project, pool, 1)
end

local function remove_from_pool(pool, pool_queues)
    redis.call('ZREM', pool_queues, queue)
    if redis.call('HINCRBY', project, pool, -1) <= 0 then
        redis.call('HDEL', project, pool)
    end
end
