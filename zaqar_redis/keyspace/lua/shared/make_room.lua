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
        local rules = redis.call('HMGET', queue, 'dead_queue', 'max_claims')
        local has_nowhere = overflow == 'dead_letter' and not rules[1]
        if overflow == 'reject' or count > most or has_nowhere then
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
        -- Those that were claimed too often are dead letters, whatever the overflow is.
        local least = overflow == 'dead_letter' and 0 or rules[1] and rules[2] or math.huge
        local left, dropped = math.min(excess, count + MORE), 0
        while left > 0 do
            local page
            if not known[10] then
                page = redis.call('ZRANGE', ready, 0, math.min(left, SETTLE) - 1)
            else  -- those of the lowest priority first
                local LEAST = 2 ^ 48  -- what a step of it is worth, where it is strict
                local last = redis.call('ZREVRANGE', ready, 0, 0, 'WITHSCORES')[2] or 0
                page = redis.call('ZRANGEBYSCORE', ready, math.floor(last / LEAST) * LEAST, '+inf',
                    'LIMIT', 0, math.min(left, SETTLE))
            end
            if #page == 0 then
                break
            end
            local ends = redis.call('ZMSCORE', expiry, unpack(page))
            local envelopes = redis.call('HMGET', bodies, unpack(page))
            local expired, dead, held, over = {}, {}, {}, {}
            for place, hold in ipairs(redis.call('HMGET', holds, unpack(page))) do
                local rank, envelope = page[place], envelopes[place]
                if tonumber(ends[place]) <= now then
                    expired[#expired + 1] = rank
                elseif count_of(hold) >= tonumber(least) then
                    dead[#dead + 1], held[#held + 1] = rank, hold
                    -- Expired, from now on: so no verb shows it.
                    redis.call('HSET', bodies, rank, string.sub(envelope, 1, 10)
                        .. pack('>BI8', 207, now) .. string.sub(envelope, 20))
                else
                    over[#over + 1] = rank
                end
            end
            if #expired > 0 then
                redis.call('HINCRBY', queue, 'expired', forget(park(expired)))
            end
            if #dead > 0 then
                set_aside(dead, held)
            end
            dropped = dropped + forget(over)
            left = left - #dead - #over
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
