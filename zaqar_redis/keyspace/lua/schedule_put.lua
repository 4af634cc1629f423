-- Store a schedule, new or in the place of the one of that name.
--
-- Returns 'full' when the project has so many already, 'past' when it is due already, else 'new'
-- or 'replaced'.
--#flags deny-oom
--#keys schedule schedules due_schedules schedule_clock
--#args now:number entry name most:number version definition next:number
-- next: ms, or 0: it is not due
--#include now schedule_clock

local is_new = redis.call('EXISTS', schedule) == 0
if is_new and redis.call('ZCARD', schedules) >= most then
    return 'full'
elseif next ~= 0 and next <= now then
    return 'past'
end
local at = string.format('%.0f', next)
redis.call('HSET', schedule,
    'version', version, 'definition', definition, 'next', at, 'planned', see(now))
redis.call('ZADD', schedules, 0, name)
if next ~= 0 then
    redis.call('ZADD', due_schedules, at, entry)
else
    redis.call('ZREM', due_schedules, entry)
end
return is_new and 'new' or 'replaced'
