-- Find the first message, by rank, that was created at a time or later.
--
-- Returns {its rank or false, last rank given}, or false when there is no such queue.
local queue     = KEYS[1]            -- hash: the queue itself
local messages  = KEYS[2]            -- zset: every message by rank
local bodies    = KEYS[3]            -- hash: rank -> envelope
local move_lock = KEYS[4]            -- string: the move lock, while the queue moves
local created   = tonumber(ARGV[1])  -- ms
--#include move_lock
--#include envelope

local known = redis.call('HMGET', queue, 'epoch', 'rank')
if not known[1] then
    return false
end
local found, low, high = false, 0, redis.call('ZCARD', messages)
while low < high do
    local middle = math.floor((low + high) / 2)
    local rank = redis.call('ZRANGE', messages, middle, middle)[1]
    if created_of(redis.call('HGET', bodies, rank)) >= created then
        found, high = rank, middle
    else
        low = middle + 1
    end
end
return {found, known[2] or '0'}
