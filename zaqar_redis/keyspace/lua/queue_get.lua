-- Read a queue: {metadata, created}; both false when it is missing.
local queue = KEYS[1]  -- hash: the queue itself
local gate  = KEYS[2]  -- string: keeps everybody out while it is there
local peek  = ARGV[1]  -- '1': also while it is kept closed

if peek ~= '1' then
    local shut = redis.call('GET', gate)
    if shut then
        return redis.error_reply('GATED ' .. shut)
    end
end
return redis.call('HMGET', queue, 'metadata', 'created')
