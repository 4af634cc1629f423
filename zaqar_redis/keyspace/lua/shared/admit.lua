-- Return why nothing may be appended; else create the queue if needed, and set `epoch` to its.
--#include admissible
if known[1] then
    epoch = known[1]
elseif epoch == '' then
    return {'missing'}
else
    epoch = redis.call('GET', reserved_epoch) or epoch
    redis.call('HSET', queue, 'epoch', epoch, 'created', now, 'metadata', '{}', 'unlisted', 1)
    redis.call('DEL', reserved_epoch)
end
