-- Add a client to a channel's presence, or renew it, for `ttl`.
local presence = KEYS[1]            -- zset: clients of a channel, by when they expire
local present  = KEYS[2]            -- hash: client -> user and info
local users    = KEYS[3]            -- hash: user -> how many clients
local now      = tonumber(ARGV[1])  -- ms; 0: the time of Redis
local client   = ARGV[2]            -- id
local user     = ARGV[3]            -- id
local info     = ARGV[4]            -- of the client
local ttl      = tonumber(ARGV[5])  -- ms
--#include now
--#include leave
--#include expire_presence

expire_presence()
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
