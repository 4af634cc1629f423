-- Release the move lock of a queue, if it is still this one.
--
-- Returns 1 if it was, else 0.
--#keys move_lock
--#args lock
-- lock: what it holds

if redis.call('GET', move_lock) == lock then
    return redis.call('DEL', move_lock)
end
return 0
