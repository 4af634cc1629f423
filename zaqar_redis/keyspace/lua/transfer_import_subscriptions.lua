-- Import subscriptions.
--#keys subscriptions subscribers subscription_ids subscription_ends move_lock
--#args token rest...
-- rest: id, expiry, subscription; of each
--#include target_lock subscriber

for place = rest, #ARGV, 3 do
    local id, ends, record = ARGV[place], ARGV[place + 1], ARGV[place + 2]
    redis.call('HSET', subscriptions, id, record)
    redis.call('HSET', subscribers, subscriber_of(record), id)
    redis.call('ZADD', subscription_ids, 0, id)
    redis.call('ZADD', subscription_ends, ends, id)
end
return 1
