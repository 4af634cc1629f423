-- Read a subscription: {now, expiry, subscription}, or {now} when it does not exist.
local subscriptions     = KEYS[1]            -- hash: id -> subscription
local subscription_ends = KEYS[2]            -- zset: ids by expiry
local move_lock         = KEYS[3]            -- string: the move lock, while the queue moves
local now               = tonumber(ARGV[1])  -- ms; 0: the time of Redis
local id                = ARGV[2]            -- of the subscription
--#include move_lock
--#include now

local ends = tonumber(redis.call('ZSCORE', subscription_ends, id) or 0)
if ends <= now then
    return {now}
end
return {now, ends, redis.call('HGET', subscriptions, id)}
