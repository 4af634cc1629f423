-- Find the first message, by rank, that was created at a time or later.
--
-- Returns {its rank or false, last rank given}, or false when there is no such queue.
--#keys queue messages bodies move_lock
--#args created:number
--#include move_lock envelope

local known = redis.call('HMGET', queue, 'epoch', 'rank')
if not known[1] then
    return false
end
local found, low, high = false, 0, redis.call('ZCARD', messages)
while low < high do
    local middle = math.floor((low + high) / 2)
    local rank = redis.call('ZRANGE', messages, middle, middle)[1]
    if created_of(redis.call('HGET', bodies, rank)) >= created then
        found, high = rank, middle
    else
        low = middle + 1
    end
end
return {found, known[2] or '0'}
