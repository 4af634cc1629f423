-- Take a turn at work that one process does at a time.
--
-- Returns 1, or 0 when another process has it.
--#keys role
--#args process period:number goes_on:flag
-- period: ms
-- goes_on: it has the turn, and keeps it for longer

if not goes_on and redis.call('EXISTS', role) == 1 then
    return 0
end
redis.call('DEL', role)  -- a full Redis lets a script go on that has written
redis.call('SET', role, process, 'PX', period)
return 1
