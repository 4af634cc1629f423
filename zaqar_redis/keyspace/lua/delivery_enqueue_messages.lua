-- Store messages that are delivered to a subscription once more, but for those that wait for it.
--
-- Returns how many.
--#flags deny-oom
--#keys queue subscriptions @deliveries delivery_index sweep_index move_lock
--#args now:number id rest...
-- rest: key, expiry, record; of each delivery
--#include move_lock now wake_notifier

if redis.call('HEXISTS', subscriptions, id) == 0 then
    return 0
end
local count, given_up = 0, 0
local soonest, noted = nil, redis.call('HGET', queue, 'due')
for place = rest, #ARGV, 3 do
    local delivery, ends = id .. ' ' .. ARGV[place], tonumber(ARGV[place + 1])
    local record = redis.call('HGET', pending, delivery)
    local failed = record and string.sub(record, 1, 1) == 'f'
    if failed or not record then
        redis.call('HSET', pending, delivery, ARGV[place + 2])
        redis.call('ZADD', pending_ids, 0, delivery)
        redis.call('ZADD', pending_ends, ends, delivery)
        soonest = math.min(soonest or ends, ends)
        count = count + 1
        given_up = given_up + (failed and 1 or 0)
    end
end
if count > 0 then
--#include note_sweep
    if given_up > 0 then
        redis.call('HINCRBY', delivery_states, id .. ' failed', -given_up)
    end
    redis.call('ZADD', pending_due, now, id)
    wake_notifier(now)
end
return count
