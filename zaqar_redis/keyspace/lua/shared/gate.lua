-- While a queue moves from store to store, only the mover may touch it.
local shut = redis.call('GET', gate)
if shut then
    return redis.error_reply('GATED ' .. shut)
end
