-- Delete a topic. Returns 1, or 0 when it does not exist.
local topics      = KEYS[1]  -- hash: name -> metadata
local topic_names = KEYS[2]  -- zset, score 0: names of topics
local topic       = ARGV[1]  -- name

redis.call('ZREM', topic_names, topic)
return redis.call('HDEL', topics, topic)
