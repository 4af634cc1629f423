-- Settle a queue that nobody uses, a bounded step at a time, and note when to do it again.
--
-- Returns how much was settled; less than 100 (see SETTLE): nothing is left to do.
local queue             = KEYS[1]            -- hash: the queue itself
local messages          = KEYS[2]            -- zset: every message by rank
local bodies            = KEYS[3]            -- hash: rank -> envelope
local ready             = KEYS[4]            -- zset: claimable by rank
local claimed           = KEYS[5]            -- zset: held, by the end of the hold
local delayed           = KEYS[6]            -- zset: delayed, by the end of the delay
local expiry            = KEYS[7]            -- zset: every message by expiry
local holds             = KEYS[8]            -- hash: rank -> last claim and count
local claims            = KEYS[9]            -- hash: claim -> ttl and ranks
local leases            = KEYS[10]           -- zset: claims by the end of their lease
local gate              = KEYS[11]           -- string: keeps everybody out while it is there
local idempotency       = KEYS[12]           -- hash: retry token -> the answer given
local idempotency_old   = KEYS[13]           -- the same of the window before
local letters           = KEYS[14]           -- hash: token of a letter that came in
local letters_old       = KEYS[15]           -- the same of the window before
local ledger            = KEYS[16]           -- hash: writer -> its entry in the ledger
local ledger_ends       = KEYS[17]           -- zset: entries by the time they are forgotten
local subscriptions     = KEYS[18]           -- hash: id -> subscription
local subscribers       = KEYS[19]           -- hash: subscriber -> id
local subscription_ids  = KEYS[20]           -- zset, score 0: ids of subscriptions
local subscription_ends = KEYS[21]           -- zset: ids of subscriptions by expiry
local spent             = KEYS[22]           -- list: the latest claims without messages
local due               = KEYS[23]           -- zset: queues of the slot by when one is due
local now               = tonumber(ARGV[1])  -- ms; 0: the time of Redis
--#include gate
--#include now
--#include forget
--#include settle
--#include remembered
--#include subscriber
--#include subscription
--#include soonest

local settled = settle()
if redis.call('EXISTS', leases) == 0 then
    redis.call('DEL', spent)  -- no claim of these is left
end
local ends = next_end()
if ends and ends <= now then
    settled = settled + forget_remembered()
end
settled = settled + forget_subscriptions()
schedule(soonest_end())
return settled
