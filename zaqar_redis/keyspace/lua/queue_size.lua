-- Count a queue's messages, and estimate their stored bytes by a sample.
--
-- Returns {messages, bytes}. What time has changed is not settled: nothing is written.
--#keys bodies move_lock
--#include move_lock sampled_size

local count = redis.call('HLEN', bodies)
return {count, math.floor(count * (sampled_size() or 0))}
