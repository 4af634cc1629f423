-- Leave the rest of a request's work to the sweeper: the queue is due, and may have messages in
-- front that were claimed too often.
--#keys queue move_lock sweep_index
--#args now:number
--#include move_lock now

if redis.call('EXISTS', queue) == 0 then
    return 0
end
redis.call('ZREM', sweep_index, '')  -- a full Redis lets a script go on that has written
redis.call('HSET', queue, 'exhausted', 1)
local soonest, noted = now, redis.call('HGET', queue, 'due')
--#include note_sweep
return 1
