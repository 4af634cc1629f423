-- Put on record, for one window at least and two at most: name and record of each; when
-- all are forgotten.
local function record(named, since, till)
    if since and now >= since + window then
        -- What is in the old one was made before `since`, so its window is over, whether
        -- that has become longer or shorter meanwhile.
        redis.call('UNLINK', records_old)
        redis.call('RENAME', records, records_old)
        since = nil
    end
    if not (since and till) then
        named[#named + 1], named[#named + 2] = 'since', now
        till = 0
    end
    if till < now + window then
        -- For all that may come before the next window begins: it is written once.
        till = now + 2 * window
        named[#named + 1], named[#named + 2] = 'till', till
    end
    redis.call('HSET', records, unpack(named))
    return till
end
