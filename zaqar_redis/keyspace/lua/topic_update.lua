-- Replace the metadata of a topic. Returns 1, or 0 when it does not exist.
local topics   = KEYS[1]  -- hash: name -> metadata
local topic    = ARGV[1]  -- name
local metadata = ARGV[2]  -- JSON object

if redis.call('HEXISTS', topics, topic) == 0 then
    return 0
end
redis.call('HSET', topics, topic, metadata)
return 1
