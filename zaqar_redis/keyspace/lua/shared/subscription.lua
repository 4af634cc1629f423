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

-- Forget those whose time is over, a bounded number at once.
local function forget_subscriptions()
    local over = redis.call('ZRANGEBYSCORE', subscription_ends, '-inf', now, 'LIMIT', 0, 100)
    for _, id in ipairs(over) do
        unsubscribe(id)
    end
    return #over
end
