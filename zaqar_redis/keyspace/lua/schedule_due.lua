-- List schedules that are due.
--
-- Returns {now, the highest time that was seen, when the next one is due or '0', entries...}.
--#keys due_schedules schedule_clock
--#args now:number limit:number
--#include now

local at = string.format('%.0f', now)
local found = redis.call('ZRANGEBYSCORE', due_schedules, '-inf', at, 'LIMIT', 0, limit)
local later = redis.call('ZRANGEBYSCORE', due_schedules, '(' .. at, '+inf',
    'WITHSCORES', 'LIMIT', 0, 1)
return {now, redis.call('GET', schedule_clock) or '0', later[2] or '0', unpack(found)}
