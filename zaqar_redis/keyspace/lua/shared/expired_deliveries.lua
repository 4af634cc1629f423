-- Delete deliveries whose messages have expired, a bounded number at once: for queues that no
-- notifier serves. Returns how many.
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
    if redis.call('XLEN', deliveries) == 0 and redis.call('EXISTS', delivery_lease) == 0 then
        redis.call('DEL', deliveries)
    end
    local expired = redis.call('ZRANGEBYSCORE', pending_ends, '-inf', now, 'LIMIT', 0, 100)
    if #expired > 0 then
        redis.call('HDEL', pending, unpack(expired))
        redis.call('ZREM', pending_ids, unpack(expired))
        redis.call('ZREM', pending_due, unpack(expired))
        redis.call('ZREM', pending_ends, unpack(expired))
    end
    return gone + #expired
end
