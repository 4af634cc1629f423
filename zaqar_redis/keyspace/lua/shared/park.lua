-- Park the expired messages that become dead letters: all of them, or those that were claimed too
-- often and that no claim has met since; return the others.
--#include parked

local function park(old)
    local known = redis.call('HMGET', queue, 'on_expiry', 'dead_queue', 'max_claims')
    local least = known[1] == 'dead_letter' and 0 or tonumber(known[3])
    if not known[2] or not least then
        return old
    end
    local dead, over = {}, {}
    for place, hold in ipairs(redis.call('HMGET', holds, unpack(old))) do
        local rank, count = old[place], hold and tonumber(string.sub(hold, 33)) or 0
        if count >= least then
            dead[#dead + 1] = rank
            redis.call('HSET', holds, rank, string.rep('0', 32) .. count)
            redis.call('ZADD', claimed, PARKED, rank)
        else
            over[#over + 1] = rank
        end
    end
    if #dead > 0 then
        redis.call('ZREM', ready, unpack(dead))
        redis.call('ZREM', delayed, unpack(dead))
        redis.call('ZREM', expiry, unpack(dead))
        redis.call('HSET', queue, 'exhausted', 1)
    end
    return over
end
