-- Read all pools: name, pool as stored; of each, in no order.
local pools = KEYS[1]  -- hash: name -> pool

return redis.call('HGETALL', pools)
