-- Read some of the catalogue: {where to go on or '0', {queue, pool; of each}}.
local catalogue = KEYS[1]            -- hash: queue -> pool
local cursor    = ARGV[1]            -- '0' at first
local limit     = tonumber(ARGV[2])  -- queues to look at, about

return redis.call('HSCAN', catalogue, cursor, 'COUNT', limit)
