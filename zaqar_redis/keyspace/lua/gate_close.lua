-- Keep everybody out of a queue that is not there, for a while.
--
-- Returns 1, or 0 when the queue is there or on the move.
local queue = KEYS[1]            -- hash: the queue itself
local gate  = KEYS[2]            -- string: keeps everybody out while it is there
local token = ARGV[1]            -- new
local life  = tonumber(ARGV[2])  -- ms

local shut = redis.call('GET', gate)
if redis.call('EXISTS', queue) == 1 or (shut and string.sub(shut, 1, 7) ~= 'closed:') then
    return 0
end
redis.call('SET', gate, 'closed:' .. token, 'PX', life)
return 1
