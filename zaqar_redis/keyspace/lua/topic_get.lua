-- The metadata of a topic, or false.
local topics = KEYS[1]  -- hash: name -> metadata
local topic  = ARGV[1]  -- name

return redis.call('HGET', topics, topic)
