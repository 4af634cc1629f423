-- Read all fields of the queue itself: name, value; of each.
local queue     = KEYS[1]            -- hash: the queue itself
local move_lock = KEYS[2]            -- string: the move lock, while the queue moves
local token     = ARGV[1]            -- of the move
local lease     = tonumber(ARGV[2])  -- ms
--#include hold_move_lock

local refused = check_move_lock('out')
if refused then
    return refused
end
redis.call('PEXPIRE', move_lock, lease)
return redis.call('HGETALL', queue)
