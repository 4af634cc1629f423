-- Give an attempt to take a queue in up: as if it had never begun, but for its gate.  The queue
-- may have been here before, and who remembers that must not make another one here.
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
local idempotency       = KEYS[11]  -- hash: retry token -> the answer given
local idempotency_old   = KEYS[12]  -- the same of the window before
local letters           = KEYS[13]  -- hash: token of a letter that came in
local letters_old       = KEYS[14]  -- the same of the window before
local ledger            = KEYS[15]  -- hash: writer -> its entry in the ledger
local ledger_ends       = KEYS[16]  -- zset: entries by the time they are forgotten
local gate              = KEYS[17]  -- string: keeps everybody out while it is there
local subscriptions     = KEYS[18]  -- hash: id -> subscription
local subscribers       = KEYS[19]  -- hash: subscriber -> id
local subscription_ids  = KEYS[20]  -- zset, score 0: ids of subscriptions
local subscription_ends = KEYS[21]  -- zset: ids of subscriptions by expiry
local spent             = KEYS[22]  -- list: the latest claims without messages
local due               = KEYS[23]  -- zset: queues of the slot by when one is due
local token             = ARGV[1]   -- of the move
local life              = tonumber(ARGV[2])  -- ms for which the gate stays shut; 0: it opens

if redis.call('GET', gate) ~= 'into:' .. token then
    return 0
end
redis.call('ZREM', due, string.sub(queue, 5, -2))
redis.call('UNLINK', queue, messages, bodies, ready, claimed, delayed, expiry, holds, claims,
    leases, idempotency, idempotency_old, letters, letters_old, ledger, ledger_ends, subscriptions,
    subscribers, subscription_ids, subscription_ends, gate, spent)
if life > 0 then
    redis.call('SET', gate, 'closed:' .. token, 'PX', life)
end
return 1
