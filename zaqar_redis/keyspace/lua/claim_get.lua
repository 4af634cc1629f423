-- Read a live claim and the messages it still holds.
--
-- Returns {now, epoch, ttl, end of the lease, then rank, envelope and hold of
-- each}, or false when there is no such claim.
local queue     = KEYS[1]            -- hash: the queue itself
local bodies    = KEYS[2]            -- hash: rank -> envelope
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

local ranks, ttl, lease = held_by(claim)
if not ranks then
    return false
end
local answer = {now, redis.call('HGET', queue, 'epoch'), ttl, lease}
for _, rank in ipairs(ranks) do
    answer[#answer + 1] = rank
    answer[#answer + 1] = redis.call('HGET', bodies, rank)
    answer[#answer + 1] = redis.call('HGET', holds, rank)
end
return answer
