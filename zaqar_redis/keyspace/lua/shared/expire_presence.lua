-- Remove the clients whose presence has expired.
local function expire_presence()
    for _, client in ipairs(redis.call('ZRANGEBYSCORE', presence, '-inf', now)) do
        local entry = redis.call('HGET', present, client)
        if entry then
            leave(client, user_of(entry))
        end
    end
    redis.call('ZREMRANGEBYSCORE', presence, '-inf', now)
end
