-- The end of subscriptions.
--#include subscriber wake_notifier failing

-- Posts to a queue with this field are entered for delivery; notifiers read the subscriptions
-- again when it has changed.
local function note_change()
    if redis.call('EXISTS', subscription_ids) == 0 then
        redis.call('HDEL', queue, 'subscribed')
    elseif redis.call('HEXISTS', queue, 'subscribed') == 1 then
        redis.call('HINCRBY', queue, 'subscribed', 1)
    end
end

-- Returns 1, or 0 when it does not exist.
local function unsubscribe(id)
    local record = redis.call('HGET', subscriptions, id)
    if not record then
        return 0
    end
    redis.call('HDEL', subscribers, subscriber_of(record))
    redis.call('HDEL', subscriptions, id)
    redis.call('ZREM', subscription_ids, id)
    redis.call('HDEL', delivery_states, id .. ' delivered', id .. ' failed', id .. ' retried',
        id .. ' last')
    note_not_failing(id)
    if redis.call('EXISTS', pending) == 1 then  -- a notifier removes what waits for it
        redis.call('ZADD', pending_due, now, id)
        wake_notifier(now)
    end
    redis.call('ZREM', subscription_ends, id)
    note_change()
    return 1
end

-- Delete the expired ones, a bounded number at once.
local function forget_subscriptions()
    local expired = redis.call('ZRANGEBYSCORE', subscription_ends, '-inf', now, 'LIMIT', 0, 100)
    for _, id in ipairs(expired) do
        unsubscribe(id)
    end
    return #expired
end
