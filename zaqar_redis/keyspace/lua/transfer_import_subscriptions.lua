-- Import subscriptions.
local subscriptions     = KEYS[1]  -- hash: id -> subscription
local subscribers       = KEYS[2]  -- hash: subscriber -> id
local subscription_ids  = KEYS[3]  -- zset, score 0: ids of subscriptions
local subscription_ends = KEYS[4]  -- zset: ids of subscriptions by expiry
local move_lock         = KEYS[5]  -- string: the move lock, while the queue moves
local token             = ARGV[1]  -- of the move
-- ARGV[2...]: id, expiry, subscription; of each
--#include hold_move_lock
--#include subscriber

local refused = check_move_lock('into')
if refused then
    return refused
end
for place = 2, #ARGV, 3 do
    local id, ends, record = ARGV[place], ARGV[place + 1], ARGV[place + 2]
    redis.call('HSET', subscriptions, id, record)
    redis.call('HSET', subscribers, subscriber_of(record), id)
    redis.call('ZADD', subscription_ids, 0, id)
    redis.call('ZADD', subscription_ends, ends, id)
end
return 1
