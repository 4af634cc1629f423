-- Remove the clients whose presence has expired.
--#include leave

for _, expired in ipairs(redis.call('ZRANGEBYSCORE', presence, '-inf', now)) do
    local entry = redis.call('HGET', present, expired)
    if entry then
        leave(expired, user_of(entry))
    end
end
redis.call('ZREMRANGEBYSCORE', presence, '-inf', now)
