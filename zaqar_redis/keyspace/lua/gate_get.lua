-- What keeps everybody out of a queue; false: nothing does.
local gate = KEYS[1]  -- string: keeps everybody out while it is there

return redis.call('GET', gate)
