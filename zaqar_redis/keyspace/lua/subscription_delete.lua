-- Forget a subscription. Returns whether it was there (1) or not.
local subscriptions     = KEYS[1]  -- hash: id -> subscription
local subscribers       = KEYS[2]  -- hash: subscriber -> id
local subscription_ids  = KEYS[3]  -- zset, score 0: ids
local subscription_ends = KEYS[4]  -- zset: ids by expiry
local gate              = KEYS[5]  -- string: keeps everybody out while it is there
local id                = ARGV[1]  -- of the subscription
--#include gate
--#include subscriber
--#include subscription

return unsubscribe(id)
