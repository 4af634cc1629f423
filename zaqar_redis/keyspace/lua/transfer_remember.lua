-- Take in records of one generation.
local records = KEYS[1]  -- hash: name -> record
local gate    = KEYS[2]  -- string: keeps everybody out while it is there
local token   = ARGV[1]  -- of the move
-- ARGV[2...]: name and record of each
--#include moving

local refused = hold('into')
if refused then
    return refused
end
for place = 2, #ARGV, 2 do
    redis.call('HSET', records, ARGV[place], ARGV[place + 1])
end
return 1
