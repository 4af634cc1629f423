-- Read all flavors: {their names, {name, pool as stored; of each pool}}.
local pools   = KEYS[1]  -- hash: name -> pool
local flavors = KEYS[2]  -- hash: name -> 1

return {redis.call('HKEYS', flavors), redis.call('HGETALL', pools)}
