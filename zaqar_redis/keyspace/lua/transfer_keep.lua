-- Take in what has an end of its own.
local terms  = KEYS[1]  -- zset: ids by their end
local things = KEYS[2]  -- hash: id -> what belongs to it
local gate   = KEYS[3]  -- string: keeps everybody out while it is there
local token  = ARGV[1]  -- of the move
-- ARGV[2...]: id, end, what belongs to it; of each
--#include moving

local refused = hold('into')
if refused then
    return refused
end
for place = 2, #ARGV, 3 do
    redis.call('ZADD', terms, ARGV[place + 1], ARGV[place])
    redis.call('HSET', things, ARGV[place], ARGV[place + 2])
end
return 1
