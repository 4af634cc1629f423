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
        if overflow == 'reject' or count > most then
            return refused('full', most, count)
        end
--#include settle
        for _ = 1, MORE / SETTLE do  -- older messages may have to become ready first
            local _, unsettled = settle()
            if not unsettled then
                break
            end
        end
        if redis.call('ZCARD', ready) < math.min(excess, count) then
            return refused('full', most, count)
        end
        local left, dropped = math.min(excess, count + MORE), 0
        while left > 0 do
            local oldest = redis.call('ZRANGE', ready, 0, math.min(left, SETTLE) - 1)
            if #oldest == 0 then
                break
            end
            left = left - #oldest
            if overflow == 'drop_oldest' then
                dropped = dropped + forget(oldest)
            else
                for place, envelope in ipairs(redis.call('HMGET', bodies, unpack(oldest))) do
                    -- Expired, from now on: so no verb shows it.
                    redis.call('HSET', bodies, oldest[place], string.sub(envelope, 1, 10)
                        .. pack('>BI8', 207, now) .. string.sub(envelope, 20))
                end
                set_aside(oldest, redis.call('HMGET', holds, unpack(oldest)))
            end
        end
        if dropped > 0 then
            redis.call('HINCRBY', queue, 'dropped', dropped)
        elseif overflow == 'dead_letter' then
            local soonest, noted = now, known[6]
--#include note_sweep
        end
    end
end
