-- The id of a subscriber's subscription, or false.
local subscribers = KEYS[1]  -- hash: subscriber -> id
local move_lock   = KEYS[2]  -- string: the move lock, while the queue moves
local subscriber  = ARGV[1]  -- URI
--#include move_lock

return redis.call('HGET', subscribers, subscriber)
