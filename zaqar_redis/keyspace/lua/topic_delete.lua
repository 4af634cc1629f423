-- Delete a topic. Returns 1, or 0 when it does not exist.
--#keys topics topic_names
--#args topic

redis.call('ZREM', topic_names, topic)
return redis.call('HDEL', topics, topic)
