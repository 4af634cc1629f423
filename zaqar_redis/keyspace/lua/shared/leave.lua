-- An entry is '<bytes of the user>:<user><info>'.
local function user_of(entry)
    local size, at = string.match(entry, '^(%d+):()')
    return string.sub(entry, at, at + size - 1)
end
-- Remove a client, and its user with the last of its clients.
local function leave(client, user)
    if redis.call('HDEL', present, client) == 1 then
        if redis.call('HINCRBY', users, user, -1) <= 0 then
            redis.call('HDEL', users, user)
        end
    end
    redis.call('ZREM', presence, client)
end
