-- Remove every message and claim; the queue, its metadata and its ranks stay.
local messages  = KEYS[1]   -- zset: every message by rank
local bodies    = KEYS[2]   -- hash: rank -> envelope
local ready     = KEYS[3]   -- zset: claimable by rank
local claimed   = KEYS[4]   -- zset: held, by the end of the hold
local delayed   = KEYS[5]   -- zset: delayed, by the end of the delay
local expiry    = KEYS[6]   -- zset: every message by expiry
local holds     = KEYS[7]   -- hash: rank -> last claim and count
local claims    = KEYS[8]   -- hash: claim -> ttl and ranks
local leases    = KEYS[9]   -- zset: claims by the end of their lease
local move_lock = KEYS[10]  -- string: the move lock, while the queue moves
local spent     = KEYS[11]  -- list: the latest claims without messages
--#include move_lock

return redis.call('UNLINK', messages, bodies, ready, claimed, delayed, expiry, holds, claims,
    leases, spent)
