-- Subscribe, unless the subscriber has subscribed to the queue already.
--
-- Returns 1; 0 when it has; -1 when the queue does not exist and a notifier is to deliver; or -2
-- when the queue has as many subscriptions as it may have.
--#flags deny-oom
--#keys @subscription move_lock sweep_index
--#args now:number id subscriber ttl:number options paused:flag delivers:flag most
-- delivers: a notifier delivers to it, so posts to the queue are entered
-- most: subscriptions of the queue, or ''
--#include move_lock now subscription

if delivers and redis.call('HEXISTS', queue, 'epoch') == 0 then
    return -1
end
forget_subscriptions()
local existing = redis.call('HGET', subscribers, subscriber)
if existing and tonumber(redis.call('ZSCORE', subscription_ends, existing)) <= now then
    unsubscribe(existing)
elseif existing then
    return 0
end
if most ~= '' and redis.call('HLEN', subscriptions) >= tonumber(most) then
    return -2
end
local head = ttl .. ' 0' .. (paused and ' 1' or '')
redis.call('HSET', subscriptions, id, head .. '\n' .. options .. '\n' .. subscriber)
redis.call('HSET', subscribers, subscriber, id)
redis.call('ZADD', subscription_ids, 0, id)
redis.call('ZADD', subscription_ends, now + ttl * 1000, id)
local soonest, noted = now + ttl * 1000, redis.call('HGET', queue, 'due')
--#include note_sweep
-- Not 1: when all are deleted and others follow, it must not be what it was before.
if delivers and redis.call('HSETNX', queue, 'subscribed', now) == 0 then
    note_change()
end
return 1
