-- Read all flavors: {{name, what it can do; of each}, {name, pool as stored; of each pool}}.
local pools   = KEYS[1]  -- hash: name -> pool
local flavors = KEYS[2]  -- hash: name -> what it can do, as JSON

return {redis.call('HGETALL', flavors), redis.call('HGETALL', pools)}
