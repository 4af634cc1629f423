-- What a queue remembers for a time: records in generations, and entries of the ledger.
local generations = {idempotency, idempotency_old, letters, letters_old}

-- When the next of it is to be forgotten, ms; false: nothing is remembered.
local function next_end()
    local soonest = tonumber(redis.call('ZRANGE', ledger_ends, 0, 0, 'WITHSCORES')[2])
    for _, generation in ipairs(generations) do
        local till = tonumber(redis.call('HGET', generation, 'till'))
        if till and (not soonest or till < soonest) then
            soonest = till
        end
    end
    return soonest or false
end

-- Forget what is over, of the ledger a bounded number at once; how much that was.
local function forget_remembered()
    local gone = 0
    for _, generation in ipairs(generations) do
        local till = redis.call('HGET', generation, 'till')
        if till and tonumber(till) <= now then
            gone = gone + redis.call('HLEN', generation) - 2
            redis.call('UNLINK', generation)
        end
    end
    local over = redis.call('ZRANGEBYSCORE', ledger_ends, '-inf', now, 'LIMIT', 0, 100)
    if #over > 0 then
        redis.call('ZREM', ledger_ends, unpack(over))
        redis.call('HDEL', ledger, unpack(over))
    end
    return gone + #over
end
