-- Only the mover that imports the queue may write it.
local lock = redis.call('GET', move_lock)
if lock ~= 'into:' .. token then
    return redis.error_reply('GATED ' .. (lock or ''))
end
