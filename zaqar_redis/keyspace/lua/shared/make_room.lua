-- Return that posts are paused, or that the queue is full; or take the oldest messages that can be
-- claimed out of a full queue, as its field `limits` says: how many it may have, perhaps how many
-- bytes, what becomes of those beyond, what is paused. `values` and `skip` as for append.lua.
if known[9] then
    local most, most_bytes, overflow, paused = string.match(known[9], '^(%d+)/?(%d*) (%S+) (%S+)$')
    most, most_bytes = tonumber(most), tonumber(most_bytes)
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
    local posted, too_many = 0, 0  -- bytes
    if most_bytes then
--#include posted_bytes
        posted = bytes
        too_many = (redis.call('HGET', queue, 'bytes') or 0) + posted - most_bytes
    end
    if excess > 0 or too_many > 0 then
        local MORE = 1000  -- a millisecond or two: so a lowered limit takes effect soon
        local rules = redis.call('HMGET', queue, 'dead_queue', 'max_claims')
        local has_nowhere = overflow == 'dead_letter' and not rules[1]
        local refuses = overflow == 'reject' or has_nowhere
        if excess > 0 and (refuses or count > most) then
            return refused('full', most, count, 'messages')
        elseif posted > (most_bytes or posted) then
            return refused('full', most_bytes, posted, 'bytes')
        end
--#include settle
        for _ = 1, MORE / SETTLE do  -- older messages may have to become ready first
            local _, unsettled = settle()
            if not unsettled then
                break
            end
        end
        if redis.call('ZCARD', ready) < math.min(excess, count) then
            return refused('full', most, count, 'messages')
        end
        if too_many > 0 then  -- those that have expired were among them
            too_many = (redis.call('HGET', queue, 'bytes') or 0) + posted - most_bytes
            local needed, from = math.min(too_many, posted), 0
            while needed > 0 do
                local page = redis.call('ZRANGE', ready, from, from + SETTLE - 1)
                if refuses or #page == 0 then
                    return refused('full', most_bytes, posted, 'bytes')
                end
                for _, rank in ipairs(page) do
                    needed = needed - redis.call('HSTRLEN', bodies, rank)
                end
                from = from + SETTLE
            end
        end
        -- Those that were claimed too often are dead letters, whatever the overflow is.
        local least = overflow == 'dead_letter' and 0 or rules[1] and rules[2] or math.huge
        local left, dropped = math.min(excess, count + MORE), 0
        too_many = math.min(too_many, posted + 64 * MORE)
        while left > 0 or too_many > 0 do
            local page
            local step = too_many > 0 and SETTLE or math.min(left, SETTLE)
            if not known[10] then
                page = redis.call('ZRANGE', ready, 0, step - 1)
            else  -- those of the lowest priority first
                local LEAST = 2 ^ 48  -- what a step of it is worth, where it is strict
                local last = redis.call('ZREVRANGE', ready, 0, 0, 'WITHSCORES')[2] or 0
                page = redis.call('ZRANGEBYSCORE', ready, math.floor(last / LEAST) * LEAST, '+inf',
                    'LIMIT', 0, step)
            end
            if #page == 0 then
                break
            end
            if too_many > 0 then
                local wanted = {}
                for _, rank in ipairs(page) do
                    if too_many <= 0 and #wanted >= left then
                        break
                    end
                    wanted[#wanted + 1] = rank
                    too_many = too_many - redis.call('HSTRLEN', bodies, rank)
                end
                page = wanted
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
