-- Return that posts are paused, or that the queue is full; or take the oldest messages that can be
-- claimed out of a full queue, as its field `limits` says: how many it may have, what becomes of
-- those beyond, what is paused. `values` and `skip` as for append.lua.
if known[9] then
    local most, overflow, paused = string.match(known[9], '^(%d+) (%S+) (%S+)$')
    most = tonumber(most)
    local count = (#values - skip) / 3
    local function refused(...)
        redis.call('HINCRBY', queue, 'refused', count)
        return {...}
    end
    if paused == 'posts' or paused == 'all' then
        return refused('paused')
    end
    -- What has expired or is parked does not count.
    local later = string.format('(%.0f', now)
    local excess = most > 0 and redis.call('ZCOUNT', expiry, later, '+inf') + count - most or 0
    if excess > 0 then
        local MORE = 1000  -- a millisecond or two: so a lowered limit takes effect soon
        local needed = math.min(excess, count)
        if overflow == 'reject' or count > most or redis.call('ZCARD', ready) < needed then
            return refused('full', most, count)
        end
--#include parked forget park
        local left, dropped = math.min(excess, count + MORE), 0
        while left > 0 do
            local page = redis.call('ZRANGE', ready, 0, math.min(left, SETTLE) - 1)
            if #page == 0 then
                break
            end
            local expired, oldest = {}, {}
            for place, ends in ipairs(redis.call('ZMSCORE', expiry, unpack(page))) do
                local kind = tonumber(ends) <= now and expired or oldest
                kind[#kind + 1] = page[place]
            end
            if #expired > 0 then
                redis.call('HINCRBY', queue, 'expired', forget(park(expired)))
            end
            if overflow == 'drop_oldest' then
                dropped = dropped + forget(oldest)
            elseif #oldest > 0 then
                for place, envelope in ipairs(redis.call('HMGET', bodies, unpack(oldest))) do
                    -- Expired, from now on: so no verb shows it.
                    local ttl = (expiry_of(envelope) - created_of(envelope)) / 1000
                    redis.call('HSET', bodies, oldest[place], prolonged(envelope, now, ttl))
                end
                set_aside(oldest, redis.call('HMGET', holds, unpack(oldest)))
            end
            left = left - #oldest
        end
        if dropped > 0 then
            redis.call('HINCRBY', queue, 'dropped', dropped)
        end
        if redis.call('HEXISTS', queue, 'exhausted') == 1 then
            local soonest, noted = now, known[6]
--#include note_sweep
        end
    end
end
