-- Change what is given of a subscription; a new ttl counts from now.
--
-- Returns 'updated', 'missing', or 'taken': the new subscriber has one already.
local subscriptions     = KEYS[1]            -- hash: id -> subscription
local subscribers       = KEYS[2]            -- hash: subscriber -> id
local subscription_ids  = KEYS[3]            -- zset, score 0: ids
local subscription_ends = KEYS[4]            -- zset: ids by expiry
local move_lock         = KEYS[5]            -- string: the move lock, while the queue moves
local sweep_index       = KEYS[6]            -- zset: queues of the slot by their next sweep
local queue             = KEYS[7]            -- hash: the queue itself
local now               = tonumber(ARGV[1])  -- ms; 0: the time of Redis
local id                = ARGV[2]            -- of the subscription
local subscriber        = ARGV[3]            -- URI, or ''
local ttl               = ARGV[4]            -- seconds, or ''
local options           = ARGV[5]            -- JSON object, or ''
local confirmed         = ARGV[6]            -- '1', '0' or ''
--#include move_lock
--#include now
--#include subscriber
--#include subscription

forget_subscriptions()
if tonumber(redis.call('ZSCORE', subscription_ends, id) or 0) <= now then
    return 'missing'
end
local own_ttl, was_confirmed, own_options, own_subscriber =
    string.match(redis.call('HGET', subscriptions, id), '^(%d+) (%d)\n([^\n]*)\n(.*)$')
if subscriber ~= '' and subscriber ~= own_subscriber then
    local existing = redis.call('HGET', subscribers, subscriber)
    if existing and tonumber(redis.call('ZSCORE', subscription_ends, existing)) > now then
        return 'taken'
    elseif existing then
        unsubscribe(existing)
    end
    redis.call('HDEL', subscribers, own_subscriber)
    redis.call('HSET', subscribers, subscriber, id)
    own_subscriber = subscriber
end
if ttl ~= '' then
    own_ttl = ttl
    redis.call('ZADD', subscription_ends, now + ttl * 1000, id)
    local soonest, noted = now + ttl * 1000, redis.call('HGET', queue, 'due')
--#include note_sweep
end
local head = own_ttl .. ' ' .. (confirmed ~= '' and confirmed or was_confirmed)
local record = {head, options ~= '' and options or own_options, own_subscriber}
redis.call('HSET', subscriptions, id, table.concat(record, '\n'))
return 'updated'
