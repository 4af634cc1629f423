-- Seal a queue that was copied completely: nobody may use it in this store any more.
--
-- Returns 1, or 0 when the move lock expired meanwhile.
--#keys move_lock
--#args token

local lock = redis.call('GET', move_lock)
if lock == 'out:' .. token or lock == 'gone:' .. token then
    redis.call('DEL', move_lock)  -- a full Redis lets a script go on that has written
    redis.call('SET', move_lock, 'gone:' .. token)
    return 1
end
return 0
