-- Create a queue unless it exists.
--
-- Returns {created (1) or not, not yet listed (1) or listed}.
local queue          = KEYS[1]            -- hash: the queue itself
local move_lock      = KEYS[2]            -- string: the move lock, while the queue moves
local reserved_epoch = KEYS[3]            -- string: the reserved epoch
local now            = tonumber(ARGV[1])  -- ms; 0: the time of Redis
local epoch          = ARGV[2]            -- of the queue, unless one is reserved
local metadata       = ARGV[3]            -- JSON object
-- ARGV[4...]: name and value of each setting that the verbs go by
--#include move_lock
--#include now

if redis.call('EXISTS', queue) == 1 then
    return {0, redis.call('HEXISTS', queue, 'unlisted')}
end
epoch = redis.call('GET', reserved_epoch) or epoch
redis.call('HSET', queue, 'epoch', epoch, 'created', now, 'metadata', metadata, 'unlisted', 1,
    unpack(ARGV, 4))
redis.call('DEL', reserved_epoch)
return {1, 1}
