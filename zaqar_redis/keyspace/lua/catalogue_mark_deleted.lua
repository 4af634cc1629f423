-- Mark a queue as deleted, or remove the mark.
local catalogue = KEYS[1]            -- hash: queue -> pool
local deleted   = KEYS[2]            -- zset: deleted queues by time
local now       = tonumber(ARGV[1])  -- ms; 0: the time of Redis
local queue     = ARGV[2]            -- project and name
local gone      = ARGV[3]            -- '1' or '0'
--#include now

if gone == '0' then
    return redis.call('ZREM', deleted, queue)
end
if redis.call('HEXISTS', catalogue, queue) == 1 then
    redis.call('ZADD', deleted, now, queue)
end
return 1
