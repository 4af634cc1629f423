-- Count a queue's messages, and estimate their stored bytes by a sample.
--
-- Returns {messages, bytes}. What time has changed is not settled: nothing is written.
--#keys bodies move_lock
--#include move_lock

local SAMPLE = 32  -- envelopes: some microseconds; drawn anew each time, so errors do not stay
local count = redis.call('HLEN', bodies)
if count == 0 then
    return {0, 0}
end
local sampled = redis.call('HRANDFIELD', bodies, SAMPLE)
local bytes = 0
for _, rank in ipairs(sampled) do
    bytes = bytes + redis.call('HSTRLEN', bodies, rank)
end
return {count, math.floor(bytes * count / #sampled)}
