-- Sweep a queue that nobody uses, a bounded step at a time, and note when to sweep it again.
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
local move_lock         = KEYS[11]           -- string: the move lock, while the queue moves
local idempotency       = KEYS[12]           -- hash: idempotency key digest -> the answer given
local idempotency_old   = KEYS[13]           -- the same of the window before
local dead_letters      = KEYS[14]           -- hash: digest of a dead letter that was posted
local dead_letters_old  = KEYS[15]           -- the same of the window before
local ledger            = KEYS[16]           -- hash: writer -> its entry in the ledger
local ledger_ends       = KEYS[17]           -- zset: entries by the time they expire
local subscriptions     = KEYS[18]           -- hash: id -> subscription
local subscribers       = KEYS[19]           -- hash: subscriber -> id
local subscription_ids  = KEYS[20]           -- zset, score 0: ids of subscriptions
local subscription_ends = KEYS[21]           -- zset: ids of subscriptions by expiry
local spent             = KEYS[22]           -- list: the latest claims without messages
local sweep_index       = KEYS[23]           -- zset: queues of the slot by their next sweep
local now               = tonumber(ARGV[1])  -- ms; 0: the time of Redis
--#include move_lock
--#include now
--#include forget
--#include settle
--#include expiring_records
--#include subscriber
--#include subscription
--#include next_sweep

local settled = settle()
if redis.call('EXISTS', leases) == 0 then
    redis.call('DEL', spent)  -- none of these claims is left
end
local ends = next_record_expiry()
if ends and ends <= now then
    settled = settled + forget_expired_records()
end
settled = settled + forget_subscriptions()
schedule(next_sweep_time())
return settled
