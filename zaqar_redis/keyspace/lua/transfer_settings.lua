-- Read everything that a queue knows of itself: name, value; of each.
local queue = KEYS[1]            -- hash: the queue itself
local gate  = KEYS[2]            -- string: keeps everybody out while it is there
local token = ARGV[1]            -- of the move
local lease = tonumber(ARGV[2])  -- ms
--#include moving

local refused = hold('out')
if refused then
    return refused
end
redis.call('PEXPIRE', gate, lease)
return redis.call('HGETALL', queue)
