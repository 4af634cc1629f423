-- Remove a client from a channel's presence.
local presence = KEYS[1]  -- zset: clients of a channel, by when they expire
local present  = KEYS[2]  -- hash: client -> user and info
local users    = KEYS[3]  -- hash: user -> how many clients
local client   = ARGV[1]  -- id
local user     = ARGV[2]  -- id
--#include leave

leave(client, user)
return 1
