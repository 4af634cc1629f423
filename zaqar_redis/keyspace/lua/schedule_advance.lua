-- Note what has become of a schedule.
--
-- Returns 1, or 0 when it was changed or deleted meanwhile.
--#keys schedule due_schedules schedule_clock
--#args now:number entry version expected new_version next last failure due
-- next: ms, or '0': it is not due any more
-- last: ms, or '0': it has posted nothing
-- due: ms when to look at it again, or '0'
--#include now schedule_clock

local stored = redis.call('HMGET', schedule, 'version', 'next')
if stored[1] ~= version or stored[2] ~= expected then
    if not stored[1] then  -- evicted
        redis.call('ZREM', due_schedules, entry)
    end
    return 0
end
-- A full Redis lets a script go on that has written.
redis.call('HDEL', schedule, 'version', 'next', 'planned', 'last', 'failure')
redis.call('HSET', schedule,
    'version', new_version, 'next', next, 'planned', see(now), 'last', last)
if failure ~= '' then
    redis.call('HSET', schedule, 'failure', failure)
end
if due == '0' then
    redis.call('ZREM', due_schedules, entry)
else
    redis.call('ZADD', due_schedules, due, entry)
end
return 1
