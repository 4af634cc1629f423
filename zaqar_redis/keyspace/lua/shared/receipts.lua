-- Forget answers whose time is over, a bounded number at once.
local function forget_receipts()
    local over = redis.call('ZRANGEBYSCORE', lapses, '-inf', now, 'LIMIT', 0, 100)
    if #over > 0 then
        redis.call('ZREM', lapses, unpack(over))
        redis.call('HDEL', receipts, unpack(over))
    end
    return #over
end
