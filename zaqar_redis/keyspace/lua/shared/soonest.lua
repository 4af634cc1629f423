-- When something of the queue is due next, as text, or false; goes on after next_end().
local function soonest_end()
    local soonest = next_end()
    for _, ends in ipairs({expiry, delayed, claimed, leases, subscription_ends}) do
        local at = tonumber(redis.call('ZRANGE', ends, 0, 0, 'WITHSCORES')[2])
        if at and (not soonest or at < soonest) then
            soonest = at
        end
    end
    return soonest and string.format('%.0f', soonest)
end

-- From now on the index says this, and nothing else, of the queue; due.lua has the rest.
local function schedule(soonest)
    local name = string.sub(queue, 5, -2)
    local has = redis.call('HMGET', queue, 'epoch', 'unlisted')
    redis.call('ZREM', due, name)  -- a full Redis lets a script write more than it has begun with
    if soonest then
        redis.call('ZADD', due, soonest, name)
    end
    if soonest and has[1] and not has[2] then
        redis.call('HSET', queue, 'due', soonest)
    else
        redis.call('HDEL', queue, 'due')
    end
end
