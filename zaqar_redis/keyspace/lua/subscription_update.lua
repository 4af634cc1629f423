-- Change what is given of a subscription; a new ttl counts from now.
--
-- Returns 'updated', 'missing', or 'taken': the new subscriber has one already.
--#keys @subscription move_lock sweep_index
--#args now:number id subscriber ttl options confirmed paused
-- subscriber: URI, or ''
-- ttl: seconds, or ''
-- options: JSON object, or ''
-- confirmed, paused: '1', '0' or ''
--#include move_lock now subscription

forget_subscriptions()
if tonumber(redis.call('ZSCORE', subscription_ends, id) or 0) <= now then
    return 'missing'
end
local own_ttl, was_confirmed, was_paused, own_options, own_subscriber =
    string.match(redis.call('HGET', subscriptions, id), '^(%d+) (%d) ?(%d?)\n([^\n]*)\n(.*)$')
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
    note_not_failing(id)
end
if ttl ~= '' then
    own_ttl = ttl
    redis.call('ZADD', subscription_ends, now + ttl * 1000, id)
    local soonest, noted = now + ttl * 1000, redis.call('HGET', queue, 'due')
--#include note_sweep
end
local head = own_ttl .. ' ' .. (confirmed ~= '' and confirmed or was_confirmed)
if paused == '1' or paused == '' and was_paused == '1' then
    head = head .. ' 1'
end
local record = {head, options ~= '' and options or own_options, own_subscriber}
redis.call('HSET', subscriptions, id, table.concat(record, '\n'))
if paused == '0' and was_paused == '1' then
    redis.call('ZADD', pending_due, now, id)
    wake_notifier(now)
end
note_change()
return 'updated'
