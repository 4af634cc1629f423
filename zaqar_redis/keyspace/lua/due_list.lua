-- Which queues have something due: '<project>/<queue>' of each, by index.
--
-- The keys are indexes of what is due, each of one slot: in a cluster one a call.
-- KEYS[1...]: zset: queue by the time when something of it is due; of each slot
local now   = tonumber(ARGV[1])  -- ms; 0: the time of Redis
local limit = tonumber(ARGV[2])  -- queues of each index at most
--#include now

-- In a store of few queues most are not there, and that of all costs a tenth to ask at once.
if redis.call('EXISTS', unpack(KEYS)) == 0 then
    return {}
end
local found = {}
for _, index in ipairs(KEYS) do
    for _, queue in ipairs(redis.call('ZRANGEBYSCORE', index, '-inf', now, 'LIMIT', 0, limit)) do
        found[#found + 1] = queue
    end
end
return found
