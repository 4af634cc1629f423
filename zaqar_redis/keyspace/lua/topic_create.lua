-- Create a topic. Returns 1, or 0 when it exists already.
local topics      = KEYS[1]  -- hash: name -> metadata
local topic_names = KEYS[2]  -- zset, score 0: names of topics
local topic       = ARGV[1]  -- name
local metadata    = ARGV[2]  -- JSON object

if redis.call('HSETNX', topics, topic, metadata) == 0 then
    return 0
end
redis.call('ZADD', topic_names, 0, topic)
return 1
