-- Read queues that were deleted some time ago: queue, pool; of each.
local catalogue = KEYS[1]            -- hash: queue -> pool
local deleted   = KEYS[2]            -- zset: deleted queues by time
local now       = tonumber(ARGV[1])  -- ms; 0: the time of Redis
local age       = tonumber(ARGV[2])  -- ms since the deletion, at least
local after     = tonumber(ARGV[3])  -- how many to pass over
local limit     = tonumber(ARGV[4])  -- how many at most
--#include now

local found = {}
local names = redis.call('ZRANGEBYSCORE', deleted, '-inf', now - age, 'LIMIT', after, limit)
for _, queue in ipairs(names) do
    found[#found + 1] = queue
    found[#found + 1] = redis.call('HGET', catalogue, queue)
end
return found
