-- Where a queue lives: {pool or false, its move or false, when it was deleted or false, the
-- epoch that it is to have when it gets a pool, or false}.
local catalogue = KEYS[1]  -- hash: queue -> pool
local moves     = KEYS[2]  -- hash: queue -> move
local deleted   = KEYS[3]  -- zset: deleted queues by time
local unborn    = KEYS[4]  -- string: the epoch that the queue is to have
local queue     = ARGV[1]  -- project and name

return {redis.call('HGET', catalogue, queue), redis.call('HGET', moves, queue),
    redis.call('ZSCORE', deleted, queue), redis.call('GET', unborn)}
