-- A delivery that was not made in time has failed, if its subscription still exists.
local function count_expired_delivery(id)
    local subscription = string.match(id, '^[^ ]*')
    local is_given_up = string.sub(redis.call('HGET', pending, id) or 'f', 1, 1) == 'f'
    if not is_given_up and redis.call('HEXISTS', subscriptions, subscription) == 1 then
        redis.call('HINCRBY', delivery_states, subscription .. ' failed', 1)
        note_expired(subscription)
    end
end

-- Delete deliveries whose messages have expired, a bounded number at once: for queues that no
-- notifier serves, and subscriptions whose deliveries wait. Returns how many.
local function forget_expired_deliveries()
    local gone = 0
    while gone < 100 do
        local expires, entry = expiry_of_oldest_entry()
        if not expires or expires > now then
            break
        end
        redis.call('XDEL', deliveries, entry)
        gone = gone + 1
    end
    local is_served = redis.call('EXISTS', delivery_lease) == 1
    if not is_served and redis.call('XLEN', deliveries) == 0 then
        redis.call('DEL', deliveries)
    end
    -- A notifier counts those that it has in memory itself, when it comes to them.
    local before = is_served and now - 300000 or now
    local expired = redis.call('ZRANGEBYSCORE', pending_ends, '-inf', before, 'LIMIT', 0, 100)
    for _, id in ipairs(expired) do
        count_expired_delivery(id)
    end
    if #expired > 0 then
        redis.call('HDEL', pending, unpack(expired))
        redis.call('ZREM', pending_ids, unpack(expired))
        redis.call('ZREM', pending_due, unpack(expired))
        redis.call('ZREM', pending_ends, unpack(expired))
    end
    return gone + #expired
end
