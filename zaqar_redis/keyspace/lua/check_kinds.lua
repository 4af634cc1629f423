-- The move lock of a queue, whether the queue itself exists, and which of its keys have the
-- wrong type: {move lock or '', 1 or 0, key...}.
--#keys @queue move_lock stages reserved_epoch sweep_index delivery_index delivery_lease

local kinds = {
    hash = {queue, bodies, holds, order, claims, idempotency, idempotency_old, dead_letters,
        dead_letters_old, ledger, subscriptions, subscribers, stages, pending, delivery_states},
    zset = {messages, ready, claimed, delayed, expiry, groups, leases, ledger_ends,
        subscription_ids, subscription_ends, sweep_index, pending_ids, pending_due, pending_ends,
        delivery_index},
    list = {spent},
    string = {move_lock, reserved_epoch, delivery_lease},
    stream = {deliveries},
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
