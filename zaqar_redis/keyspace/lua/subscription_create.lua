-- Subscribe, unless the subscriber has subscribed to the queue already.
--
-- Returns 1, or 0 when it has.
local subscriptions     = KEYS[1]            -- hash: id -> subscription
local subscribers       = KEYS[2]            -- hash: subscriber -> id
local subscription_ids  = KEYS[3]            -- zset, score 0: ids
local subscription_ends = KEYS[4]            -- zset: ids by expiry
local move_lock         = KEYS[5]            -- string: the move lock, while the queue moves
local sweep_index       = KEYS[6]            -- zset: queues of the slot by their next sweep
local queue             = KEYS[7]            -- hash: the queue itself
local now               = tonumber(ARGV[1])  -- ms; 0: the time of Redis
local id                = ARGV[2]            -- of the subscription
local subscriber        = ARGV[3]            -- URI
local ttl               = tonumber(ARGV[4])  -- seconds
local options           = ARGV[5]            -- JSON object
--#include move_lock
--#include now
--#include subscriber
--#include subscription

forget_subscriptions()
local existing = redis.call('HGET', subscribers, subscriber)
if existing and tonumber(redis.call('ZSCORE', subscription_ends, existing)) <= now then
    unsubscribe(existing)
elseif existing then
    return 0
end
redis.call('HSET', subscriptions, id, ttl .. ' 0\n' .. options .. '\n' .. subscriber)
redis.call('HSET', subscribers, subscriber, id)
redis.call('ZADD', subscription_ids, 0, id)
redis.call('ZADD', subscription_ends, now + ttl * 1000, id)
local soonest, noted = now + ttl * 1000, redis.call('HGET', queue, 'due')
--#include note_sweep
return 1
