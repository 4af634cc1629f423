-- Reserve the epoch of a queue that is in no pool yet.
--
-- Returns {its pool} when it is in one, else {false, epoch}: the one that was reserved before,
-- if any was.
local catalogue      = KEYS[1]  -- hash: queue -> pool
local reserved_epoch = KEYS[2]  -- string: the reserved epoch
local queue          = ARGV[1]  -- project and name
local epoch          = ARGV[2]  -- to reserve
local kept           = ARGV[3]  -- seconds to keep it

local current_pool = redis.call('HGET', catalogue, queue)
if current_pool then
    return {current_pool}
end
redis.call('SET', reserved_epoch, epoch, 'NX')
redis.call('EXPIRE', reserved_epoch, kept)
return {false, redis.call('GET', reserved_epoch)}
