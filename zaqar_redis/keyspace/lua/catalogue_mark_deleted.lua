-- Mark a queue as deleted, if the catalogue has it.
--#keys catalogue deleted
--#args now:number queue
--#include now

if redis.call('HEXISTS', catalogue, queue) == 1 then
    redis.call('ZADD', deleted, now, queue)
end
return 1
