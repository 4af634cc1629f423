-- Add a client to a channel's presence, or renew it, for `ttl`.
--#keys presence present users
--#args now:number client user info ttl:number
-- ttl: ms
--#include now expire_presence

local before = redis.call('HGET', present, client)
if before and user_of(before) ~= user then
    leave(client, user_of(before))
    before = nil
end
if not before then
    redis.call('HINCRBY', users, user, 1)
end
redis.call('HSET', present, client, #user .. ':' .. user .. info)
redis.call('ZADD', presence, now + ttl, client)
-- Longer than any entry lives: the keys of an idle channel expire together.
redis.call('PEXPIRE', presence, ttl * 2)
redis.call('PEXPIRE', present, ttl * 2)
redis.call('PEXPIRE', users, ttl * 2)
return 1
