-- Park the expired messages that become dead letters; return the others.
--#include parked envelope

local PARKED_MS = 86400000  -- a day: for as long the other queue's store may be away

local function park(old)
    local known = redis.call('HMGET', queue, 'on_expiry', 'dead_queue')
    if known[1] ~= 'dead_letter' or not known[2] then
        return old
    end
    local over, ends = {}, string.format('%.0f', now + PARKED_MS)
    for _, rank in ipairs(old) do
        if tonumber(redis.call('ZSCORE', claimed, rank) or 0) >= PARKED then
            over[#over + 1] = rank
        else
            local envelope = redis.call('HGET', bodies, rank)
            local hold = redis.call('HGET', holds, rank)
            redis.call('ZREM', ready, rank)
            redis.call('ZREM', delayed, rank)
            redis.call('ZADD', claimed, PARKED, rank)
            redis.call('ZADD', expiry, ends, rank)
            redis.call('HSET', bodies, rank, expiring_at(envelope, now + PARKED_MS))
            redis.call('HSET', holds, rank, string.rep('0', 32)
                .. (hold and string.sub(hold, 33) or 0))
            redis.call('HSET', queue, 'exhausted', 1)
        end
    end
    return over
end
