-- Apply what time has changed: delete or park expired messages, make those ready whose delay
-- ended or whose claim expired, and delete expired claims.
--#include order forget park give_back

local function end_delays()
    local ended = redis.call('ZRANGEBYSCORE', delayed, '-inf', now, 'LIMIT', 0, SETTLE)
    if #ended > 0 then
        redis.call('ZREM', delayed, unpack(ended))
        free(ended)
    end
    return #ended
end

local function end_holds()
    local ended = redis.call('ZRANGEBYSCORE', claimed, '-inf', now, 'LIMIT', 0, SETTLE)
    if #ended > 0 then
        give_back(ended, nil, true)
    end
    return #ended
end

-- Returns how much was settled, and whether more messages are to be settled. Expired claims may be
-- left in leases: who reads that set compares with now.
local function settle()
    local old = redis.call('ZRANGEBYSCORE', expiry, '-inf', now, 'LIMIT', 0, SETTLE)
    if #old > 0 then
        redis.call('HINCRBY', queue, 'expired', forget(park(old)))
    end
    local begun, freed = end_delays(), end_holds()
    if freed > 0 then
        redis.call('HINCRBY', queue, 'released', freed)
    end
    local expired = redis.call('ZRANGEBYSCORE', leases, '-inf', now, 'LIMIT', 0, SETTLE)
    if #expired > 0 then
        redis.call('ZREM', leases, unpack(expired))
        redis.call('HDEL', claims, unpack(expired))
    end
    if begun + freed + opened > 0 then
        redis.call(publish, queue .. ':feed', begun + freed + opened)
        opened = 0
    end
    return #old + begun + freed + #expired, math.max(#old, begun, freed) == SETTLE
end

-- Milliseconds until a delay ends or a claim expires; false: neither is running.
local function next_visible_in()
    local soonest = false
    for _, waiting in ipairs({delayed, claimed}) do
        local head = redis.call('ZRANGE', waiting, 0, 0, 'WITHSCORES')
        if head[2] then
            local left = math.max(0, tonumber(head[2]) - now)
            if not soonest or left < soonest then
                soonest = left
            end
        end
    end
    return soonest
end
