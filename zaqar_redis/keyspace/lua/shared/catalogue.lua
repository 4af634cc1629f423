-- Give a queue that is in no pool a place in one.
local function settle_in(pool)
    redis.call('HSET', catalogue, queue, pool)
    redis.call('ZADD', queues, 0, queue)
    redis.call('HINCRBY', project, pool, 1)
end

local function move_out(pool, queues_there)
    redis.call('ZREM', queues_there, queue)
    if redis.call('HINCRBY', project, pool, -1) <= 0 then
        redis.call('HDEL', project, pool)
    end
end
