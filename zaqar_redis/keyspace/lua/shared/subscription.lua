-- Forget subscriptions; goes on after subscriber_of().
local function unsubscribe(id)
    local record = redis.call('HGET', subscriptions, id)
    if not record then
        return 0
    end
    redis.call('HDEL', subscribers, subscriber_of(record))
    redis.call('HDEL', subscriptions, id)
    redis.call('ZREM', subscription_ids, id)
    return redis.call('ZREM', subscription_ends, id)
end

-- The queue need not be there, and nobody sweeps one that is not: when the last subscription
-- is over, Redis itself forgets them.
local function expire_subscriptions()
    local last = redis.call('ZRANGE', subscription_ends, -1, -1, 'WITHSCORES')[2]
    for _, all in ipairs({subscriptions, subscribers, subscription_ids, subscription_ends}) do
        redis.call('PEXPIRE', all, string.format('%.0f', math.max(1, last - now)))
    end
end

-- Forget those whose time is over, a bounded number at once.
local function forget_subscriptions()
    local over = redis.call('ZRANGEBYSCORE', subscription_ends, '-inf', now, 'LIMIT', 0, 100)
    for _, id in ipairs(over) do
        unsubscribe(id)
    end
    return #over
end
