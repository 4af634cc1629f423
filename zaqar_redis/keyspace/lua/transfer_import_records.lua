-- Import records of one generation.
local records   = KEYS[1]  -- hash: name -> record
local move_lock = KEYS[2]  -- string: the move lock, while the queue moves
local token     = ARGV[1]  -- of the move
-- ARGV[2...]: name and record of each
--#include hold_move_lock

local refused = check_move_lock('into')
if refused then
    return refused
end
for place = 2, #ARGV, 2 do
    redis.call('HSET', records, ARGV[place], ARGV[place + 1])
end
return 1
