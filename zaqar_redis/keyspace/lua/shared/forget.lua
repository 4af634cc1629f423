-- Remove messages wherever they stand. At most SETTLE of them at once.
local SETTLE = 100  -- how much one verb tidies, so that none holds Redis up for long

local function forget(ranks)
    if #ranks == 0 then
        return 0
    end
    redis.call('ZREM', ready, unpack(ranks))
    redis.call('ZREM', claimed, unpack(ranks))
    redis.call('ZREM', delayed, unpack(ranks))
    redis.call('ZREM', expiry, unpack(ranks))
    redis.call('HDEL', bodies, unpack(ranks))
    redis.call('HDEL', holds, unpack(ranks))
    return redis.call('ZREM', messages, unpack(ranks))
end

local function forget_expired(bound)
    local ranks = redis.call('ZRANGEBYSCORE', expiry, '-inf', now, 'LIMIT', 0, bound)
    forget(ranks)
    return #ranks
end
