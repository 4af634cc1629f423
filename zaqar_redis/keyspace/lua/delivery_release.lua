-- Give the deliveries of a queue back, and note when the next one is due.
--
-- Returns 1, or 0 when the notifier did not have them any more.
--#keys queue deliveries pending_due delivery_lease delivery_index move_lock
--#args now:number token
--#include move_lock now wake_notifier

if redis.call('GET', delivery_lease) ~= token then
    return 0
end
redis.call('DEL', delivery_lease)  -- a full Redis lets a script go on that has written
local name = string.sub(queue, 5, -2)
local due = tonumber(redis.call('ZRANGE', pending_due, 0, 0, 'WITHSCORES')[2])
if redis.call('XLEN', deliveries) > 0 then
    due = now
else
    -- Not before: the ids of a new stream may be lower than the one that was read last.
    redis.call('DEL', deliveries)
end
if due then
    redis.call('ZADD', delivery_index, due, name)
    if due <= now then
        wake_notifier(now)
    end
else
    redis.call('ZREM', delivery_index, name)
end
return 1
