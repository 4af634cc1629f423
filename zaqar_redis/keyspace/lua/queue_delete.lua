-- Remove a queue with everything it owns.
local queue             = KEYS[1]   -- hash: the queue itself
local messages          = KEYS[2]   -- zset: every message by rank
local bodies            = KEYS[3]   -- hash: rank -> envelope
local ready             = KEYS[4]   -- zset: claimable by rank
local claimed           = KEYS[5]   -- zset: held, by the end of the hold
local delayed           = KEYS[6]   -- zset: delayed, by the end of the delay
local expiry            = KEYS[7]   -- zset: every message by expiry
local holds             = KEYS[8]   -- hash: rank -> last claim and count
local claims            = KEYS[9]   -- hash: claim -> ttl and ranks
local leases            = KEYS[10]  -- zset: claims by the end of their lease
local move_lock         = KEYS[11]  -- string: the move lock, while the queue moves
local idempotency       = KEYS[12]  -- hash: idempotency key digest -> the answer given
local idempotency_old   = KEYS[13]  -- the same of the window before
local dead_letters      = KEYS[14]  -- hash: digest of a dead letter that was posted
local dead_letters_old  = KEYS[15]  -- the same of the window before
local ledger            = KEYS[16]  -- hash: writer -> its entry in the ledger
local ledger_ends       = KEYS[17]  -- zset: entries by the time they expire
local subscriptions     = KEYS[18]  -- hash: id -> subscription
local subscribers       = KEYS[19]  -- hash: subscriber -> id
local subscription_ids  = KEYS[20]  -- zset, score 0: ids of subscriptions
local subscription_ends = KEYS[21]  -- zset: ids of subscriptions by expiry
local stages            = KEYS[22]  -- hash: chunks that wait to be published
local spent             = KEYS[23]  -- list: the latest claims without messages
local sweep_index       = KEYS[24]  -- zset: queues of the slot by their next sweep
--#include move_lock

redis.call('ZREM', sweep_index, string.sub(queue, 5, -2))
return redis.call('UNLINK', queue, messages, bodies, ready, claimed, delayed, expiry, holds, claims,
    leases, idempotency, idempotency_old, dead_letters, dead_letters_old, ledger, ledger_ends,
    subscriptions, subscribers, subscription_ids, subscription_ends, stages, spent)
