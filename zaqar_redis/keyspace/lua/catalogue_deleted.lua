-- Read queues that were deleted some time ago: queue, pool; of each.
--#keys catalogue deleted
--#args now:number age:number after:number limit:number
-- age: ms since the deletion, at least
-- after: how many to pass over
--#include now

local found = {}
local names = redis.call('ZRANGEBYSCORE', deleted, '-inf', now - age, 'LIMIT', after, limit)
for _, queue in ipairs(names) do
    found[#found + 1] = queue
    found[#found + 1] = redis.call('HGET', catalogue, queue)
end
return found
