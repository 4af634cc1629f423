-- Take the deliveries of a queue for `lease` ms, unless another notifier has them.
--
-- Returns 1, or 0 when another has.
--#keys queue delivery_lease delivery_index move_lock
--#args now:number token lease:number
--#include move_lock now

local holder = redis.call('GET', delivery_lease)
if holder and holder ~= token then
    return 0
end
redis.call('DEL', delivery_lease)  -- a full Redis lets a script go on that has written
redis.call('SET', delivery_lease, token, 'PX', lease)
redis.call('ZADD', delivery_index, now + lease, string.sub(queue, 5, -2))
return 1
