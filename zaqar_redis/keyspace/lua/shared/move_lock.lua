-- While a queue moves from store to store, only the mover may touch it.
local lock = redis.call('GET', move_lock)
if lock then
    return redis.error_reply('GATED ' .. lock)
end
