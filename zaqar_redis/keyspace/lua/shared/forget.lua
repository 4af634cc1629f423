-- Remove messages from every key that has them. At most SETTLE of them at once.
local SETTLE = 100  -- how much one verb cleans up, so that none blocks Redis for long

local function forget(ranks)
    if #ranks == 0 then
        return 0
    end
    -- Each is in one of the three: mostly all in the first.
    local left = #ranks - redis.call('ZREM', claimed, unpack(ranks))
    if left > 0 and left > redis.call('ZREM', ready, unpack(ranks)) then
        redis.call('ZREM', delayed, unpack(ranks))
    end
    local leaving = ranks
    read_order()
--#include uncount
    redis.call('ZREM', expiry, unpack(ranks))
    if has_groups() and (left > 0 or has_places()) then
        ordered().leave(ranks)
    end
    if ordering then
        redis.call('HDEL', order, unpack(ranks))
    end
    redis.call('HDEL', bodies, unpack(ranks))
    redis.call('HDEL', holds, unpack(ranks))
    return redis.call('ZREM', messages, unpack(ranks))
end
