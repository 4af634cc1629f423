-- Take the move lock of a queue, for as long as the mover renews it.
--
-- Returns 1, 0 when there is no such queue, or -1 when chunks wait to be published in it:
-- they do not move along.
--#keys queue move_lock stages
--#args token lease:number

local lock = redis.call('GET', move_lock)
if lock and lock ~= 'out:' .. token then
    return redis.error_reply('GATED ' .. lock)
end
if redis.call('EXISTS', queue) == 0 then
    return 0
end
if redis.call('EXISTS', stages) == 1 then
    return -1
end
redis.call('DEL', move_lock)  -- a full Redis lets a script go on that has written
redis.call('SET', move_lock, 'out:' .. token, 'PX', lease)
return 1
