-- Store records (name and record of each) for one window at least and two at most. Returns
-- when all of them expire. Old ones that have not expired are kept for `longest` ms, if some
-- have a longer window than these.
local function store_record(named, since, till, longest)
    if since and now >= since + window and (now >= since + (longest or window)
            or tonumber(redis.call('HGET', records_old, 'till') or 0) <= now) then
        -- The old records were created before `since`, so their window is over, whether
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
        -- Covers all that may come before the next window begins, so it is written once.
        till = now + 2 * window
        named[#named + 1], named[#named + 2] = 'till', till
    end
    for from = 1, #named, 1000 do
        redis.call('HSET', records, unpack(named, from, math.min(from + 999, #named)))
    end
    return till
end
