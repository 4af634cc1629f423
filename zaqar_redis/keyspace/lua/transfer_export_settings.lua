-- Read all fields of the queue itself: name, value; of each.
--#keys queue move_lock
--#args token lease:number
--#include source_lock

return redis.call('HGETALL', queue)
