-- Make a queue unless it is there.
--
-- Returns {made (1) or not, not yet listed (1) or listed}.
local queue    = KEYS[1]            -- hash: the queue itself
local gate     = KEYS[2]            -- string: keeps everybody out while it is there
local unborn   = KEYS[3]            -- string: the epoch that the queue is to have
local now      = tonumber(ARGV[1])  -- ms; 0: the time of Redis
local epoch    = ARGV[2]            -- tells this life of the queue from any other
local metadata = ARGV[3]            -- JSON object
-- ARGV[4...]: name and value of each setting that the verbs go by
--#include gate
--#include now

if redis.call('EXISTS', queue) == 1 then
    return {0, redis.call('HEXISTS', queue, 'unlisted')}
end
epoch = redis.call('GET', unborn) or epoch
redis.call('HSET', queue, 'epoch', epoch, 'created', now, 'metadata', metadata, 'unlisted', 1,
    unpack(ARGV, 4))
redis.call('DEL', unborn)
return {1, 1}
