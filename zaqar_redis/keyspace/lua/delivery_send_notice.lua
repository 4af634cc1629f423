-- Store a notice that is delivered to a subscription.
--
-- Returns 1, or 0 when there is no such subscription.
--#flags deny-oom
--#keys queue subscriptions pending pending_ids pending_due pending_ends delivery_index sweep_index
--#keys move_lock
--#args now:number id key ends:number record
-- key: of the delivery
--#include move_lock now wake_notifier

if redis.call('HEXISTS', subscriptions, id) == 0 then
    return 0
end
local delivery = id .. ' ' .. key
redis.call('HSET', pending, delivery, record)
redis.call('ZADD', pending_ids, 0, delivery)
redis.call('ZADD', pending_ends, ends, delivery)
redis.call('ZADD', pending_due, now, delivery)
local soonest, noted = ends, redis.call('HGET', queue, 'due')
--#include note_sweep
redis.call('ZADD', pending_due, now, id)
wake_notifier(now)
return 1
