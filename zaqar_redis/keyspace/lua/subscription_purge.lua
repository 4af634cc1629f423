-- Delete all subscriptions of a queue, and the deliveries to them. Returns how many there were.
--#keys queue @deliveries subscriptions subscribers subscription_ids subscription_ends move_lock
--#include move_lock

local count = redis.call('ZCARD', subscription_ids)
redis.call('HDEL', queue, 'subscribed')
redis.call('UNLINK', subscriptions, subscribers, subscription_ids, subscription_ends, deliveries,
    pending, pending_ids, pending_due, pending_ends, delivery_states)
return count
