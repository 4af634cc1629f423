-- Apply what time has changed: delete expired messages, make those ready whose delay
-- ended or whose claim expired, and delete expired claims.
local function make_ready(ranks)
    local scored = {}
    for place, rank in ipairs(ranks) do
        scored[2 * place - 1] = rank
        scored[2 * place] = rank
    end
    if #ranks > 0 then
        redis.call('ZADD', ready, unpack(scored))
    end
end

local function release_due(waiting)
    local ended = redis.call('ZRANGEBYSCORE', waiting, '-inf', now, 'LIMIT', 0, SETTLE)
    if #ended > 0 then
        redis.call('ZREM', waiting, unpack(ended))
        make_ready(ended)
    end
    return #ended
end

-- Returns how much was settled, and whether there is more to settle.
local function settle()
    local gone = forget_expired(SETTLE)
    local begun, freed = release_due(delayed), release_due(claimed)
    local expired = redis.call('ZRANGEBYSCORE', leases, '-inf', now, 'LIMIT', 0, SETTLE)
    if #expired > 0 then
        redis.call('ZREM', leases, unpack(expired))
        redis.call('HDEL', claims, unpack(expired))
    end
    if begun + freed > 0 then
        redis.call('PUBLISH', queue .. ':feed', begun + freed)
    end
    return gone + begun + freed + #expired, math.max(gone, begun, freed) == SETTLE
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
