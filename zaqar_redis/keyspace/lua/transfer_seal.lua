-- Everything is on the other side: nobody uses the queue here any more.
--
-- Returns 1, or 0 when the gate lapsed meanwhile.
local gate  = KEYS[1]  -- string: keeps everybody out while it is there
local token = ARGV[1]  -- of the move

local shut = redis.call('GET', gate)
if shut == 'out:' .. token or shut == 'gone:' .. token then
    redis.call('SET', gate, 'gone:' .. token)
    return 1
end
return 0
