-- Where a queue lives: {pool or false, its move or false, when it was deleted or false, its
-- reserved epoch or false}.
local catalogue      = KEYS[1]  -- hash: queue -> pool
local moves          = KEYS[2]  -- hash: queue -> move
local deleted        = KEYS[3]  -- zset: deleted queues by time
local reserved_epoch = KEYS[4]  -- string: the reserved epoch
local queue          = ARGV[1]  -- project and name

return {redis.call('HGET', catalogue, queue), redis.call('HGET', moves, queue),
    redis.call('ZSCORE', deleted, queue), redis.call('GET', reserved_epoch)}
