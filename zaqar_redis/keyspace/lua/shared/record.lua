-- Put on record, for one window at least and two at most: name and record of each.
local function record(named)
    local times = redis.call('HMGET', records, 'since', 'till')
    local since, till = tonumber(times[1]), tonumber(times[2] or 0)
    if since and now >= since + window then
        -- What is in the old one was made before `since`, so its window is over, whether
        -- that has become longer or shorter meanwhile.
        redis.call('UNLINK', records_old)
        redis.call('RENAME', records, records_old)
        since = nil
    end
    if not since then
        -- For all that may come before the next window begins: it is written once.
        redis.call('HSET', records, 'since', now, 'till', now + 2 * window)
    elseif till < now + window then
        redis.call('HSET', records, 'till', now + window)
    end
    redis.call('HSET', records, unpack(named))
end
