-- Create a queue unless it exists.
--
-- Returns {created (1) or not, not yet listed (1) or listed}.
--#flags deny-oom
--#keys queue move_lock reserved_epoch
--#args now:number epoch metadata rest...
-- epoch: of the queue, unless one is reserved
-- rest: name and value of each setting that the verbs go by
--#include move_lock now

if redis.call('EXISTS', queue) == 1 then
    return {0, redis.call('HEXISTS', queue, 'unlisted')}
end
epoch = redis.call('GET', reserved_epoch) or epoch
redis.call('HSET', queue, 'epoch', epoch, 'created', now, 'metadata', metadata, 'unlisted', 1,
    unpack(ARGV, rest))
redis.call('DEL', reserved_epoch)
return {1, 1}
