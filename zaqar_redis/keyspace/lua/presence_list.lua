-- Who is in a channel: client, user and info, and so on.
local presence = KEYS[1]             -- zset: clients of a channel, by when they lapse
local present  = KEYS[2]             -- hash: client -> user and info
local users    = KEYS[3]             -- hash: user -> how many clients
local now      = tonumber(ARGV[1])   -- ms; 0: the time of Redis
--#include now
--#include leave
--#include lapsed

lapse()
return redis.call('HGETALL', present)
