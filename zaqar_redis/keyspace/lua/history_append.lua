-- Append a point to the history of a queue, unless its figures are those of the last point.
--
-- Returns 1, or 0 when nothing has changed.
--#keys queue_history
--#args point most:number period:number
-- point: its first six bytes are its time
-- most: points that are kept; period: ms for which they are, from the last one

local last = redis.call('LINDEX', queue_history, -1)
if last and string.sub(last, 7) == string.sub(point, 7) then
    return 0
end
redis.call('RPUSH', queue_history, point)
redis.call('LTRIM', queue_history, -most, -1)
redis.call('PEXPIRE', queue_history, period)
return 1
