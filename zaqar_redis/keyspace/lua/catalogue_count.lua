-- Count the queues that live in a pool.
local queues = KEYS[1]  -- zset: queues that live in the pool

return redis.call('ZCARD', queues)
