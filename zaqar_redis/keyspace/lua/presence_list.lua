-- Read a channel's presence: client, user and info; of each.
local presence = KEYS[1]            -- zset: clients of a channel, by when they expire
local present  = KEYS[2]            -- hash: client -> user and info
local users    = KEYS[3]            -- hash: user -> how many clients
local now      = tonumber(ARGV[1])  -- ms; 0: the time of Redis
--#include now
--#include leave
--#include expire_presence

expire_presence()
return redis.call('HGETALL', present)
