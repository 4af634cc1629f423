-- Replace the metadata of a topic. Returns 1, or 0 when it does not exist.
--#keys topics
--#args topic metadata

if redis.call('HEXISTS', topics, topic) == 0 then
    return 0
end
redis.call('HSET', topics, topic, metadata)
return 1
