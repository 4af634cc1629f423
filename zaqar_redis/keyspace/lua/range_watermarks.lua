-- Where a queue begins and ends, and about how large its messages are.
--
-- Returns {epoch, first rank or false, last rank given, how many, mean bytes of an
-- envelope}, or false when there is no such queue. What time has changed is not
-- settled: reading a queue does not clean it up.
--#keys queue messages bodies move_lock
--#include move_lock

local SAMPLE = 4  -- envelopes to measure: enough to plan by, and idle streams call this often
local known = redis.call('HMGET', queue, 'epoch', 'rank')
if not known[1] then
    return false
end
local count = redis.call('ZCARD', messages)
local sampled, bytes = math.min(SAMPLE, count), 0
for sample = 0, sampled - 1 do
    local at = math.floor(sample * count / sampled)
    bytes = bytes + redis.call('HSTRLEN', bodies, redis.call('ZRANGE', messages, at, at)[1])
end
return {
    known[1], redis.call('ZRANGE', messages, 0, 0)[1] or false, known[2] or '0', count,
    math.floor(bytes / math.max(1, sampled)),
}
