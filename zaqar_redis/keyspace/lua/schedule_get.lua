-- Read a schedule: {now, its fields}.
--#keys schedule
--#args now:number
--#include now

return {now, redis.call('HGETALL', schedule)}
