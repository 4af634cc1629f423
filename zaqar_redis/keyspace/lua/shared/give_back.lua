-- Make messages claimable that no claim holds any more, at once or after a delay. That of the
-- queue, its field `redelivery`: back-off, seconds at least and at most, percent that chance may
-- take off. An ordered group waits with them.
--#include hold free

-- delay: ms for all of them from now; nil: as the queue says, from the end of each hold if
-- `lapsed`. Returns when the first of them can be claimed, or nil: all of them at once.
local function give_back(ranks, delay, lapsed)
    local known = not delay and redis.call('HMGET', queue, 'redelivery', 'max_claims', 'dead_queue')
    local backoff, least, most, jitter
    if known and known[1] then
        backoff, least, most, jitter = string.match(known[1], '^(%a+) (%d+) (%d+) (%d+)$')
    end
    local limit, held, since
    if backoff then
        limit = known[3] and tonumber(known[2]) or math.huge
        held = redis.call('HMGET', holds, unpack(ranks))
        since = lapsed and redis.call('ZMSCORE', claimed, unpack(ranks))
        math.randomseed((now + ranks[1]) % 2147483647)  -- else each script begins alike
    end
    local at_once, later, soonest = {}, {}, nil
    for place, rank in ipairs(ranks) do
        local ends = now + (delay or 0)
        local count = backoff and count_of(held[place]) or 0
        -- One that was never claimed was held by a move; a dead letter need not wait.
        if count > 0 and count < limit then
            local seconds = tonumber(least)
            if backoff == 'linear' then
                seconds = seconds * count
            elseif backoff == 'exponential' then
                seconds = seconds * 2 ^ math.min(count - 1, 30)
            end
            local share = 1 - jitter / 100 * math.random()
            local wait = math.floor(math.min(seconds, tonumber(most)) * 1000 * share)
            ends = (since and tonumber(since[place]) or now) + wait
        end
        if ends > now then
            later[#later + 1], later[#later + 2] = ends, rank
            soonest = math.min(soonest or ends, ends)
        else
            at_once[#at_once + 1] = rank
        end
    end
    redis.call('ZREM', claimed, unpack(ranks))
    if #at_once > 0 then
        free(at_once)
        if resumes < math.huge then
            soonest = math.min(soonest or resumes, resumes)
        end
    end
    if #later > 0 then
        redis.call('ZADD', delayed, unpack(later))
        local verbs = ordered()
        if verbs then
            local ranks_later = {}
            for place = 2, #later, 2 do
                ranks_later[place / 2] = later[place]
            end
            verbs.defer(ranks_later)
        end
    end
    return soonest
end
