-- Read a subscription: {now, expiry, subscription}, or {now} when it is not there.
local subscriptions     = KEYS[1]            -- hash: id -> subscription
local subscription_ends = KEYS[2]            -- zset: ids by expiry
local gate              = KEYS[3]            -- string: keeps everybody out while it is there
local now               = tonumber(ARGV[1])  -- ms; 0: the time of Redis
local id                = ARGV[2]            -- of the subscription
--#include gate
--#include now

local ends = tonumber(redis.call('ZSCORE', subscription_ends, id) or 0)
if ends <= now then
    return {now}
end
return {now, ends, redis.call('HGET', subscriptions, id)}
