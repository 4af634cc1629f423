-- Read which queues are due, to be swept or for deliveries: '<project>/<queue>' of each, by index.
--
-- The keys are indexes, each of one slot: in a cluster one a call.
--#args now:number limit:number late:number
-- late: for how long they have been due, ms
-- KEYS[1...]: zset: queues of the slot by when they are due; of each slot
--#include now

-- In a store of few queues most do not exist; one EXISTS of all costs a tenth of reading each.
if redis.call('EXISTS', unpack(KEYS)) == 0 then
    return {}
end
local found, last = {}, now - late
for _, index in ipairs(KEYS) do
    for _, queue in ipairs(redis.call('ZRANGEBYSCORE', index, '-inf', last, 'LIMIT', 0, limit)) do
        found[#found + 1] = queue
    end
end
return found
