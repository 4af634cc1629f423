-- Take a role that one process has at a time, or keep it for longer.
--
-- Returns 1, or 0 when another process has it.
--#keys role
--#args process period:number
-- period: ms

local holder = redis.call('GET', role)
if holder == process then
    redis.call('PEXPIRE', role, period)  -- when the memory of Redis is full, too
    return 1
elseif holder then
    return 0
end
redis.call('DEL', role)  -- a full Redis lets a script go on that has written
redis.call('SET', role, process, 'PX', period)
return 1
