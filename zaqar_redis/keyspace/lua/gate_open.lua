-- Let everybody at the queue again, if it is still this gate that keeps them out.
--
-- Returns 1 if it was, else 0.
local gate = KEYS[1]  -- string: keeps everybody out while it is there
local shut = ARGV[1]  -- what it holds

if redis.call('GET', gate) == shut then
    return redis.call('DEL', gate)
end
return 0
