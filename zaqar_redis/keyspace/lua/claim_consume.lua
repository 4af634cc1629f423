-- Delete every message that a live claim still holds, and the claim.
--
-- Returns how many those were, or false when there is no such claim.
local messages  = KEYS[1]            -- zset: every message by rank
local bodies    = KEYS[2]            -- hash: rank -> envelope
local ready     = KEYS[3]            -- zset: claimable by rank
local claimed   = KEYS[4]            -- zset: held, by the end of the hold
local delayed   = KEYS[5]            -- zset: delayed, by the end of the delay
local expiry    = KEYS[6]            -- zset: every message by expiry
local holds     = KEYS[7]            -- hash: rank -> last claim and count
local claims    = KEYS[8]            -- hash: claim -> ttl and ranks
local leases    = KEYS[9]            -- zset: claims by the end of their lease
local move_lock = KEYS[10]           -- string: the move lock, while the queue moves
local now       = tonumber(ARGV[1])  -- ms; 0: the time of Redis
local claim     = ARGV[2]            -- id
--#include move_lock
--#include now
--#include forget
--#include hold

local ranks = held_by(claim)
if not ranks then
    return false
end
for from = 1, #ranks, SETTLE do
    forget({unpack(ranks, from, math.min(from + SETTLE - 1, #ranks))})
end
redis.call('ZREM', leases, claim)
redis.call('HDEL', claims, claim)
return #ranks
