-- Delete all that belongs to a queue, and its entry in the sweep index.
redis.call('ZREM', sweep_index, string.sub(queue, 5, -2))
redis.call('ZREM', delivery_index, string.sub(queue, 5, -2))
redis.call('UNLINK', queue, messages, bodies, ready, claimed, delayed, expiry, holds, order,
    groups, claims, leases, spent, idempotency, idempotency_old, dead_letters, dead_letters_old,
    ledger, ledger_ends, subscriptions, subscribers, subscription_ids, subscription_ends,
    deliveries,
    pending, pending_ids, pending_due, pending_ends, delivery_states)
