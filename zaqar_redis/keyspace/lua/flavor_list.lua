-- Read all flavors: {{name, what it can do; of each}, {name, pool as stored; of each pool}}.
--#keys pools flavors

return {redis.call('HGETALL', flavors), redis.call('HGETALL', pools)}
