-- Read a pool: as stored, or false.
local pools = KEYS[1]  -- hash: name -> pool
local name  = ARGV[1]  -- of the pool

return redis.call('HGET', pools, name)
