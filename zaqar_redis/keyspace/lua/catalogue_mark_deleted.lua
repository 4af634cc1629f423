-- Mark a queue as deleted, if the catalogue has it, and delete its history.
--#keys catalogue deleted queue_history
--#args now:number queue
--#include now

redis.call('UNLINK', queue_history)
if redis.call('HEXISTS', catalogue, queue) == 1 then
    redis.call('ZADD', deleted, now, queue)
end
return 1
