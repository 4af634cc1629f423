-- The id of what a subscriber has subscribed with, or false.
local subscribers = KEYS[1]  -- hash: subscriber -> id
local gate        = KEYS[2]  -- string: keeps everybody out while it is there
local subscriber  = ARGV[1]  -- URI
--#include gate

return redis.call('HGET', subscribers, subscriber)
