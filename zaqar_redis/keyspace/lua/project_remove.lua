-- Take a queue out of its project's list.
local queues = KEYS[1]  -- zset, score 0: queue names
local name   = ARGV[1]  -- of the queue

return redis.call('ZREM', queues, name)
