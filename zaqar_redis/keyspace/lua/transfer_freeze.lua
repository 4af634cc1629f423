-- Keep everybody out of a queue, for as long as the mover renews it.
--
-- Returns 1, or 0 when there is no such queue.
local queue = KEYS[1]            -- hash: the queue itself
local gate  = KEYS[2]            -- string: keeps everybody out while it is there
local token = ARGV[1]            -- of the move
local lease = tonumber(ARGV[2])  -- ms

local shut = redis.call('GET', gate)
if shut and shut ~= 'out:' .. token then
    return redis.error_reply('GATED ' .. shut)
end
if redis.call('EXISTS', queue) == 0 then
    return 0
end
redis.call('SET', gate, 'out:' .. token, 'PX', lease)
return 1
