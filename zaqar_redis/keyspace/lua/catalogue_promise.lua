-- Say which epoch a queue is to have that is in no pool yet.
--
-- Returns {its pool} when it is in one, else {false, epoch}: the one that was said before, if
-- any was.
local catalogue = KEYS[1]  -- hash: queue -> pool
local unborn    = KEYS[2]  -- string: the epoch that the queue is to have
local queue     = ARGV[1]  -- project and name
local epoch     = ARGV[2]  -- to begin with
local kept      = ARGV[3]  -- seconds to keep it

local there = redis.call('HGET', catalogue, queue)
if there then
    return {there}
end
redis.call('SET', unborn, epoch, 'NX')
redis.call('EXPIRE', unborn, kept)
return {false, redis.call('GET', unborn)}
