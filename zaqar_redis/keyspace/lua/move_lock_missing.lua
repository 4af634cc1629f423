-- Lock a queue that does not exist, for a while.
--
-- Returns 1, or 0 when the queue exists or is being moved.
--#keys queue move_lock
--#args token ttl_ms:number

local lock = redis.call('GET', move_lock)
if redis.call('EXISTS', queue) == 1 or (lock and string.sub(lock, 1, 7) ~= 'closed:') then
    return 0
end
redis.call('DEL', move_lock)  -- a full Redis lets a script go on that has written
redis.call('SET', move_lock, 'closed:' .. token, 'PX', ttl_ms)
return 1
