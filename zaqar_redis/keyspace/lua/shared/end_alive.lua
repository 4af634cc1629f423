-- The rank at one end of the queue that expires after a time, and its envelope; nil: there is none.
-- Parked messages, which are not in `expiry`, may be before it: as many as become dead letters in a
-- minute.
local function end_alive(range, after)
    local PAGE, PAGES = 100, 100
    local from, size = 0, 1  -- mostly it is the first
    for _ = 0, PAGES do
        local ranks = redis.call(range, messages, from, from + size - 1)
        if #ranks == 0 then
            return nil
        end
        for place, ends in ipairs(redis.call('ZMSCORE', expiry, unpack(ranks))) do
            if ends and tonumber(ends) > after then
                return ranks[place], redis.call('HGET', bodies, ranks[place])
            end
        end
        from, size = from + size, PAGE
    end
end
