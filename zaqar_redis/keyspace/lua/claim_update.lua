-- Renew a live claim: its lease starts anew, and its messages outlive it.
--
-- Returns 1, or 0 when there is no such claim.
local bodies      = KEYS[1]            -- hash: rank -> envelope
local claimed     = KEYS[2]            -- zset: held, by the end of the hold
local expiry      = KEYS[3]            -- zset: every message by expiry
local holds       = KEYS[4]            -- hash: rank -> last claim and count
local claims      = KEYS[5]            -- hash: claim -> ttl and ranks
local leases      = KEYS[6]            -- zset: claims by the end of their lease
local move_lock   = KEYS[7]            -- string: the move lock, while the queue moves
local sweep_index = KEYS[8]            -- zset: queues of the slot by their next sweep
local queue       = KEYS[9]            -- hash: the queue itself
local now         = tonumber(ARGV[1])  -- ms; 0: the time of Redis
local claim       = ARGV[2]            -- id
local ttl         = tonumber(ARGV[3])  -- seconds
local grace       = tonumber(ARGV[4])  -- seconds
--#include move_lock
--#include now
--#include envelope
--#include hold

local ranks = held_by(claim)
if not ranks then
    return 0
end
local ends = now + ttl * 1000
for _, rank in ipairs(ranks) do
    redis.call('ZADD', claimed, ends, rank)
    local envelope = redis.call('HGET', bodies, rank)
    if expiry_of(envelope) < ends then
        redis.call('HSET', bodies, rank, prolonged(envelope, ends + grace * 1000, ttl + grace))
        redis.call('ZADD', expiry, ends + grace * 1000, rank)
    end
end
redis.call('ZADD', leases, ends, claim)
redis.call('HSET', claims, claim, ttl .. ' ' .. table.concat(ranks, ' '))
local soonest, noted = ends, redis.call('HGET', queue, 'due')
--#include note_sweep
return 1
