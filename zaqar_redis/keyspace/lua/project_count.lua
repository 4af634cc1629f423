-- Count a project's queues.
local queues = KEYS[1]  -- zset, score 0: queue names

return redis.call('ZCARD', queues)
