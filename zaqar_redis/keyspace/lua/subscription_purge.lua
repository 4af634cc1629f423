-- Delete all subscriptions of a queue, and the deliveries to them. Returns how many there were.
--#keys queue @deliveries subscriptions subscribers subscription_ids subscription_ends
--#keys delivery_lease move_lock
--#include move_lock

local count = redis.call('ZCARD', subscription_ids)
redis.call('HDEL', queue, 'subscribed')
redis.call('UNLINK', subscriptions, subscribers, subscription_ids, subscription_ends, deliveries,
    pending, pending_ids, pending_due, pending_ends, delivery_states)
-- The notifier that has the queue forgets what it has read; the stream's ids may begin anew.
redis.call('DEL', delivery_lease)
return count
