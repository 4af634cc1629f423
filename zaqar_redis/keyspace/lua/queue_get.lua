-- Read a queue: {metadata, created}; both false when it is missing.
local queue     = KEYS[1]  -- hash: the queue itself
local move_lock = KEYS[2]  -- string: the move lock, while the queue moves
local peek      = ARGV[1]  -- '1': whatever its move lock

if peek ~= '1' then
    local lock = redis.call('GET', move_lock)
    if lock then
        return redis.error_reply('GATED ' .. lock)
    end
end
return redis.call('HMGET', queue, 'metadata', 'created')
