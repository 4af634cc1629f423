-- Reserve the epoch of a queue that is in no pool yet.
--
-- Returns {its pool} when it is in one, else {false, epoch}: the one that was reserved before,
-- if any was.
--#keys catalogue reserved_epoch
--#args queue epoch kept
-- epoch: to reserve
-- kept: seconds to keep it

local current_pool = redis.call('HGET', catalogue, queue)
if current_pool then
    return {current_pool}
end
if redis.call('EXPIRE', reserved_epoch, kept) == 0 then
    redis.call('SET', reserved_epoch, epoch, 'EX', kept)
end
return {false, redis.call('GET', reserved_epoch)}
