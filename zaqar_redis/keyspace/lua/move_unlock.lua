-- Release the move lock of a queue, if it is still this one.
--
-- Returns 1 if it was, else 0.
local move_lock = KEYS[1]  -- string: the move lock, while the queue moves
local lock      = ARGV[1]  -- what it holds

if redis.call('GET', move_lock) == lock then
    return redis.call('DEL', move_lock)
end
return 0
