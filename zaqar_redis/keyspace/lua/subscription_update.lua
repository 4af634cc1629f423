-- Change what is given of a subscription; a new ttl counts from now.
--
-- Returns 'updated', 'missing', or 'taken': the new subscriber has one already.
--#keys @subscription move_lock sweep_index
--#args now:number id subscriber ttl options confirmed
-- subscriber: URI, or ''
-- ttl: seconds, or ''
-- options: JSON object, or ''
-- confirmed: '1', '0' or ''
--#include move_lock now subscription

forget_subscriptions()
if tonumber(redis.call('ZSCORE', subscription_ends, id) or 0) <= now then
    return 'missing'
end
local own_ttl, was_confirmed, own_options, own_subscriber =
    string.match(redis.call('HGET', subscriptions, id), '^(%d+) (%d)\n([^\n]*)\n(.*)$')
if subscriber ~= '' and subscriber ~= own_subscriber then
    local existing = redis.call('HGET', subscribers, subscriber)
    if existing and tonumber(redis.call('ZSCORE', subscription_ends, existing)) > now then
        return 'taken'
    elseif existing then
        unsubscribe(existing)
    end
    redis.call('HDEL', subscribers, own_subscriber)
    redis.call('HSET', subscribers, subscriber, id)
    own_subscriber = subscriber
end
if ttl ~= '' then
    own_ttl = ttl
    redis.call('ZADD', subscription_ends, now + ttl * 1000, id)
    local soonest, noted = now + ttl * 1000, redis.call('HGET', queue, 'due')
--#include note_sweep
end
local head = own_ttl .. ' ' .. (confirmed ~= '' and confirmed or was_confirmed)
local record = {head, options ~= '' and options or own_options, own_subscriber}
redis.call('HSET', subscriptions, id, table.concat(record, '\n'))
note_change()
return 'updated'
