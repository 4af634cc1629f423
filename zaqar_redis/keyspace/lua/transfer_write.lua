-- Take messages in before it is known what has become of them.
local messages = KEYS[1]  -- zset: every message by rank
local bodies   = KEYS[2]  -- hash: rank -> envelope
local gate     = KEYS[3]  -- string: keeps everybody out while it is there
local token    = ARGV[1]  -- of the move
-- ARGV[2...]: rank and envelope of each
--#include moving

local refused = hold('into')
if refused then
    return refused
end
local by_rank = {}
for place = 2, #ARGV, 2 do
    by_rank[place - 1], by_rank[place] = ARGV[place], ARGV[place]
end
redis.call('HSET', bodies, unpack(ARGV, 2))
redis.call('ZADD', messages, unpack(by_rank))
return 1
