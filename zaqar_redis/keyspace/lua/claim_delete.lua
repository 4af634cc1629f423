-- Release a claim: the messages it still holds are claimable at once.
--
-- Returns how many those are.
local queue     = KEYS[1]            -- hash: the queue itself
local ready     = KEYS[2]            -- zset: claimable by rank
local claimed   = KEYS[3]            -- zset: held, by the end of the hold
local holds     = KEYS[4]            -- hash: rank -> last claim and count
local claims    = KEYS[5]            -- hash: claim -> ttl and ranks
local leases    = KEYS[6]            -- zset: claims by the end of their lease
local move_lock = KEYS[7]            -- string: the move lock, while the queue moves
local now       = tonumber(ARGV[1])  -- ms; 0: the time of Redis
local claim     = ARGV[2]            -- id
--#include move_lock
--#include now
--#include hold

local ranks = held_by(claim)
if not ranks then
    return 0
end
for _, rank in ipairs(ranks) do
    redis.call('ZREM', claimed, rank)
    redis.call('ZADD', ready, rank, rank)
end
redis.call('ZREM', leases, claim)
redis.call('HDEL', claims, claim)
if #ranks > 0 then
    redis.call('PUBLISH', queue .. ':feed', #ranks)
end
return #ranks
