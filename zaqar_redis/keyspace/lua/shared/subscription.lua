-- The end of subscriptions.
--#include subscriber

-- Returns 1, or 0 when it does not exist.
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

-- Delete the expired ones, a bounded number at once.
local function forget_subscriptions()
    local expired = redis.call('ZRANGEBYSCORE', subscription_ends, '-inf', now, 'LIMIT', 0, 100)
    for _, id in ipairs(expired) do
        unsubscribe(id)
    end
    return #expired
end
