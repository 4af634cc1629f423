-- Sweep a queue that nobody uses, a bounded step at a time, and note when to sweep it again.
--
-- Returns how much was settled, less than 100 (see SETTLE): nothing is left to do; and whether
-- there may be dead letters: they are to be moved.
--#keys @queue move_lock sweep_index delivery_index delivery_lease
--#args now:number
--#pubsub publish
--#include move_lock now settle subscription next_sweep expired_delivery expired_deliveries

redis.call('ZREM', sweep_index, '')  -- a full Redis lets a script go on that has written
local settled = settle()
if redis.call('EXISTS', leases) == 0 then
    redis.call('DEL', spent)  -- none of these claims is left
end
local ends = next_record_expiry()
if ends and ends <= now then
    settled = settled + forget_expired_records()
end
settled = settled + forget_subscriptions() + forget_expired_deliveries()
schedule(next_sweep_time())
return {settled, redis.call('HEXISTS', queue, 'exhausted')}
