-- When the queue is to be swept next.
--#include expiring_records oldest_entry

-- Returns the time as text, or false.
local function next_sweep_time()
    if redis.call('HEXISTS', queue, 'exhausted') == 1 then
        return string.format('%.0f', now)
    end
    local soonest = next_record_expiry()
    for _, ends in ipairs({expiry, delayed, claimed, leases, subscription_ends, pending_ends}) do
        local at = tonumber(redis.call('ZRANGE', ends, 0, 0, 'WITHSCORES')[2])
        if at and (not soonest or at < soonest) then
            soonest = at
        end
    end
    local oldest = expiry_of_oldest_entry()
    if oldest and (not soonest or oldest < soonest) then
        soonest = oldest
    end
    return soonest and string.format('%.0f', soonest)
end

-- Replace the queue's time in the sweep index; note_sweep.lua explains the field 'due'.
local function schedule(soonest)
    local name = string.sub(queue, 5, -2)
    local has = redis.call('HMGET', queue, 'epoch', 'unlisted')
    -- ZREM first: a full Redis lets a script that has begun to write go on writing.
    redis.call('ZREM', sweep_index, name)
    if soonest then
        redis.call('ZADD', sweep_index, soonest, name)
    end
    if soonest and has[1] and not has[2] then
        redis.call('HSET', queue, 'due', soonest)
    else
        redis.call('HDEL', queue, 'due')
    end
end
