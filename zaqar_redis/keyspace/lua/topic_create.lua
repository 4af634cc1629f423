-- Create a topic. Returns 1, or 0 when it exists already.
--#keys topics topic_names
--#args topic metadata

if redis.call('HSETNX', topics, topic, metadata) == 0 then
    return 0
end
redis.call('ZADD', topic_names, 0, topic)
return 1
