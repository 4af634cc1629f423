-- Note what a flavor can do; one that does not exist is created, without pools.
local flavors = KEYS[1]            -- hash: name -> what it can do, as JSON
local version = KEYS[2]            -- string: how often pools have changed
local news    = KEYS[3]            -- channel: what changed
local name    = ARGV[1]            -- of the flavor
local about   = ARGV[2]            -- JSON
local most    = tonumber(ARGV[3])  -- flavors there may be

if redis.call('HEXISTS', flavors, name) == 0 and redis.call('HLEN', flavors) >= most then
    return 'many'
end
redis.call('HSET', flavors, name, about)
redis.call('INCR', version)
redis.call('PUBLISH', news, 'pools')
return 'done'
