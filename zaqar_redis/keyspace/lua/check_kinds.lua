-- The move lock of a queue, whether the queue itself exists, and which of its keys have the
-- wrong type: {move lock or '', 1 or 0, key...}.
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
local idempotency       = KEYS[11]  -- hash: idempotency key digest -> the answer given
local idempotency_old   = KEYS[12]  -- the same of the window before
local dead_letters      = KEYS[13]  -- hash: digest of a dead letter that was posted
local dead_letters_old  = KEYS[14]  -- the same of the window before
local ledger            = KEYS[15]  -- hash: writer -> its entry in the ledger
local ledger_ends       = KEYS[16]  -- zset: entries by the time they expire
local move_lock         = KEYS[17]  -- string: the move lock, while the queue moves
local subscriptions     = KEYS[18]  -- hash: id -> subscription
local subscribers       = KEYS[19]  -- hash: subscriber -> id
local subscription_ids  = KEYS[20]  -- zset, score 0: ids of subscriptions
local subscription_ends = KEYS[21]  -- zset: ids of subscriptions by expiry
local stages            = KEYS[22]  -- hash: chunks that wait to be published
local reserved_epoch    = KEYS[23]  -- string: the reserved epoch
local spent             = KEYS[24]  -- list: the latest claims without messages
local sweep_index       = KEYS[25]  -- zset: queues of the slot by their next sweep

local kinds = {
    hash = {queue, bodies, holds, claims, idempotency, idempotency_old, dead_letters,
        dead_letters_old, ledger, subscriptions, subscribers, stages},
    zset = {messages, ready, claimed, delayed, expiry, leases, ledger_ends, subscription_ids,
        subscription_ends, sweep_index},
    list = {spent},
    string = {move_lock, reserved_epoch},
}
local wrong = {}
for kind, keys in pairs(kinds) do
    for _, typed in ipairs(keys) do
        local is = redis.call('TYPE', typed).ok
        if is ~= 'none' and is ~= kind then
            wrong[#wrong + 1] = typed
        end
    end
end
local lock = redis.call('TYPE', move_lock).ok == 'string' and redis.call('GET', move_lock) or ''
return {lock, redis.call('EXISTS', queue), unpack(wrong)}
