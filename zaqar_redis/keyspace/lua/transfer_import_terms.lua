-- Import things that expire on their own.
local terms     = KEYS[1]  -- zset: ids by their expiry
local things    = KEYS[2]  -- hash: id -> what belongs to it
local move_lock = KEYS[3]  -- string: the move lock, while the queue moves
local token     = ARGV[1]  -- of the move
-- ARGV[2...]: id, expiry, what belongs to it; of each
--#include hold_move_lock

local refused = check_move_lock('into')
if refused then
    return refused
end
for place = 2, #ARGV, 3 do
    redis.call('ZADD', terms, ARGV[place + 1], ARGV[place])
    redis.call('HSET', things, ARGV[place], ARGV[place + 2])
end
return 1
