-- What a queue stores for a time: records in generations, and entries of the ledger.
local generations = {idempotency, idempotency_old, dead_letters, dead_letters_old}

-- When the next of these expires, ms; false: there are none.
local function next_record_expiry()
    local soonest = tonumber(redis.call('ZRANGE', ledger_ends, 0, 0, 'WITHSCORES')[2])
    for _, generation in ipairs(generations) do
        local till = tonumber(redis.call('HGET', generation, 'till'))
        if till and (not soonest or till < soonest) then
            soonest = till
        end
    end
    return soonest or false
end

-- Delete what has expired, of the ledger a bounded number at once. Returns how many.
local function forget_expired_records()
    local gone = 0
    for _, generation in ipairs(generations) do
        local till = redis.call('HGET', generation, 'till')
        if till and tonumber(till) <= now then
            gone = gone + redis.call('HLEN', generation) - 2
            redis.call('UNLINK', generation)
        end
    end
    local expired = redis.call('ZRANGEBYSCORE', ledger_ends, '-inf', now, 'LIMIT', 0, 100)
    if #expired > 0 then
        redis.call('ZREM', ledger_ends, unpack(expired))
        redis.call('HDEL', ledger, unpack(expired))
    end
    return gone + #expired
end
