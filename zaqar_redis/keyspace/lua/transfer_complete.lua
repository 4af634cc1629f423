-- Take in what a queue knows of itself; it is to be listed here.
local queue = KEYS[1]  -- hash: the queue itself
local gate  = KEYS[2]  -- string: keeps everybody out while it is there
local due   = KEYS[3]  -- zset: queues of the slot by when one is due
local token = ARGV[1]  -- of the move
-- ARGV[2...]: name and value of each
--#include moving

local refused = hold('into')
if refused then
    return refused
end
redis.call('HSET', queue, unpack(ARGV, 2))
redis.call('HSET', queue, 'unlisted', 1)
redis.call('HDEL', queue, 'due')  -- noted in the index over there
local soonest, noted = 0, false  -- the sweeper will look what is due
--#include due
return 1
