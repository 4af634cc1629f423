-- As append.lua, into a queue that may have an order, or count its bytes.
if known[9] and string.find(known[9], '/', 1, true) then
--#include posted_bytes
    redis.call('HINCRBY', queue, 'bytes', bytes)
end
local verbs
if known[10] then
--#include order
    ordering = known[10]
    verbs = ordered()
end
--#include append
