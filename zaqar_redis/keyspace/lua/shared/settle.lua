-- Make true what time has changed: messages that expired are gone, those whose
-- delay ended or whose claim lapsed are ready, and lapsed claims are forgotten.
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

local function wake(waiting)
    local due = redis.call('ZRANGEBYSCORE', waiting, '-inf', now, 'LIMIT', 0, SETTLE)
    if #due > 0 then
        redis.call('ZREM', waiting, unpack(due))
        make_ready(due)
    end
    return #due
end

-- Returns how much was settled, and whether there is more to settle.
local function settle()
    local gone = forget_expired(SETTLE)
    local begun, freed = wake(delayed), wake(claimed)
    local lapsed = redis.call('ZRANGEBYSCORE', leases, '-inf', now, 'LIMIT', 0, SETTLE)
    if #lapsed > 0 then
        redis.call('ZREM', leases, unpack(lapsed))
        redis.call('HDEL', claims, unpack(lapsed))
    end
    if begun + freed > 0 then
        redis.call('PUBLISH', queue .. ':feed', begun + freed)
    end
    return gone + begun + freed + #lapsed, math.max(gone, begun, freed) == SETTLE
end

-- Milliseconds until a delay ends or a claim lapses; false: neither is running.
local function due_in()
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
