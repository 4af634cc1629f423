-- Read the move lock of a queue; false: there is none.
local move_lock = KEYS[1]  -- string: the move lock, while the queue moves

return redis.call('GET', move_lock)
