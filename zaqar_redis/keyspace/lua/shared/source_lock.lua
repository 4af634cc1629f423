-- Only the mover that froze the queue may read it; it has `lease` ms for its next step.
local lock = redis.call('GET', move_lock)
if lock ~= 'out:' .. token then
    return redis.error_reply('GATED ' .. (lock or ''))
end
redis.call('PEXPIRE', move_lock, lease)
