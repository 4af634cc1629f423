-- The id of a subscriber's subscription, or false.
--#keys subscribers move_lock
--#args subscriber
--#include move_lock

return redis.call('HGET', subscribers, subscriber)
