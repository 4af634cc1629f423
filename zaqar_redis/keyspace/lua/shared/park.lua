-- Park the expired messages if they become dead letters; else return them.
--#include parked

local function park(old)
    local known = redis.call('HMGET', queue, 'on_expiry', 'dead_queue')
    if known[1] ~= 'dead_letter' or not known[2] then
        return old
    end
    for _, rank in ipairs(old) do
        local hold = redis.call('HGET', holds, rank)
        redis.call('HSET', holds, rank, string.rep('0', 32) .. (hold and string.sub(hold, 33) or 0))
        redis.call('ZADD', claimed, PARKED, rank)
    end
    redis.call('ZREM', ready, unpack(old))
    redis.call('ZREM', delayed, unpack(old))
    redis.call('ZREM', expiry, unpack(old))
    redis.call('HSET', queue, 'exhausted', 1)
    return {}
end
