-- Park the expired messages that become dead letters: all of them, or those that were claimed too
-- often and that no claim has met since; return the others.
--#include parked

-- held: what `holds` has of each.
local function set_aside(dead, held)
    for place, rank in ipairs(dead) do
        local past = held[place] and string.sub(held[place], 33) or '0'
        redis.call('HSET', holds, rank, string.rep('0', 32) .. past)
        redis.call('ZADD', claimed, PARKED, rank)
    end
    redis.call('ZREM', ready, unpack(dead))
    redis.call('ZREM', delayed, unpack(dead))
    local verbs, leaving = ordered(), dead
--#include uncount
    redis.call('ZREM', expiry, unpack(dead))
    if verbs then
        verbs.leave(dead)
    end
    redis.call('HSET', queue, 'exhausted', 1)
end

local function park(old)
    local known = redis.call('HMGET', queue, 'on_expiry', 'dead_queue', 'max_claims')
    local least = known[1] == 'dead_letter' and 0 or tonumber(known[3])
    if not known[2] or not least then
        return old
    end
    local dead, held, over = {}, {}, {}
    for place, hold in ipairs(redis.call('HMGET', holds, unpack(old))) do
        if (hold and tonumber(string.match(hold, '^%d+', 33)) or 0) >= least then
            dead[#dead + 1], held[#held + 1] = old[place], hold
        else
            over[#over + 1] = old[place]
        end
    end
    if #dead > 0 then
        set_aside(dead, held)
    end
    return over
end
