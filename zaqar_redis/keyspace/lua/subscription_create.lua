-- Subscribe, unless the subscriber has subscribed to the queue already.
--
-- Returns 1, or 0 when it has.
--#keys subscriptions subscribers subscription_ids subscription_ends move_lock sweep_index queue
--#args now:number id subscriber ttl:number options
--#include move_lock now subscription

forget_subscriptions()
local existing = redis.call('HGET', subscribers, subscriber)
if existing and tonumber(redis.call('ZSCORE', subscription_ends, existing)) <= now then
    unsubscribe(existing)
elseif existing then
    return 0
end
redis.call('HSET', subscriptions, id, ttl .. ' 0\n' .. options .. '\n' .. subscriber)
redis.call('HSET', subscribers, subscriber, id)
redis.call('ZADD', subscription_ids, 0, id)
redis.call('ZADD', subscription_ends, now + ttl * 1000, id)
local soonest, noted = now + ttl * 1000, redis.call('HGET', queue, 'due')
--#include note_sweep
return 1
