-- Delete a subscription. Returns 1, or 0 when it does not exist.
local subscriptions     = KEYS[1]  -- hash: id -> subscription
local subscribers       = KEYS[2]  -- hash: subscriber -> id
local subscription_ids  = KEYS[3]  -- zset, score 0: ids
local subscription_ends = KEYS[4]  -- zset: ids by expiry
local move_lock         = KEYS[5]  -- string: the move lock, while the queue moves
local id                = ARGV[1]  -- of the subscription
--#include move_lock
--#include subscriber
--#include subscription

return unsubscribe(id)
