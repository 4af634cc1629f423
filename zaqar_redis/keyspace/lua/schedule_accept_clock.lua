-- Take the present time for right, though later ones were seen.
--#keys schedule_clock
--#args now:number
--#include now

redis.call('DEL', schedule_clock)  -- a full Redis lets a script go on that has written
redis.call('SET', schedule_clock, string.format('%.0f', now))
