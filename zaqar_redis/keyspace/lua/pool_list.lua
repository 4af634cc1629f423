-- Read all pools: {version, {name, pool as stored; of each, in no order}}.
local pools   = KEYS[1]  -- hash: name -> pool
local version = KEYS[2]  -- string: how often pools have changed

return {redis.call('GET', version), redis.call('HGETALL', pools)}
