-- Remove the oldest messages of a topic that exceed the size of its history: as many as were
-- appended, and some more, so that a lowered size takes effect soon. Topics have no claims.
if known[8] then
    local MORE = 1000  -- a millisecond
    local excess = redis.call('ZCARD', messages) - known[8]
    local removed, left = 0, math.min(excess, count + MORE)
    while left > 0 do
        local ranks = redis.call('ZRANGE', messages, 0, math.min(left, MORE) - 1)
        redis.call('ZREMRANGEBYRANK', messages, 0, #ranks - 1)
        if redis.call('ZREM', ready, unpack(ranks)) < #ranks then
            redis.call('ZREM', delayed, unpack(ranks))
        end
        redis.call('ZREM', expiry, unpack(ranks))
        redis.call('HDEL', bodies, unpack(ranks))
        removed, left = removed + #ranks, left - #ranks
    end
    if removed > 0 then
        redis.call('HINCRBY', queue, 'expired', removed)
    end
end
