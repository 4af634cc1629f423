-- Make messages claimable that no claim holds any more, at once or after a delay. That of the
-- queue, its field `redelivery`: back-off, seconds at least and at most, percent that chance may
-- take off.
--#include hold

local function redelivery_ms(rule, count)
    local backoff, least, most, jitter = string.match(rule, '^(%a+) (%d+) (%d+) (%d+)$')
    local seconds = tonumber(least)
    if backoff == 'linear' then
        seconds = seconds * count
    elseif backoff == 'exponential' then
        seconds = seconds * 2 ^ math.min(count - 1, 30)
    end
    local share = 1 - jitter / 100 * math.random()
    return math.floor(math.min(seconds, tonumber(most)) * 1000 * share)
end

-- delay: ms for all of them from now; nil: as the queue says, from the end of each hold if
-- `lapsed`. Returns when the first of them can be claimed, or nil: all of them at once.
local function give_back(ranks, delay, lapsed)
    local known = not delay and redis.call('HMGET', queue, 'redelivery', 'max_claims', 'dead_queue')
    local rule = known and known[1]
    local most = rule and known[3] and tonumber(known[2]) or math.huge
    local held = rule and redis.call('HMGET', holds, unpack(ranks))
    local since = rule and lapsed and redis.call('ZMSCORE', claimed, unpack(ranks))
    if rule then
        math.randomseed((now + ranks[1]) % 2147483647)  -- else each script begins alike
    end
    local by_rank, later, soonest = {}, {}, nil
    for place, rank in ipairs(ranks) do
        local ends = now + (delay or 0)
        local count = rule and math.max(1, count_of(held[place]))
        if rule and count < most then  -- else it is a dead letter, which need not wait
            ends = (since and tonumber(since[place]) or now) + redelivery_ms(rule, count)
        end
        if ends > now then
            later[#later + 1], later[#later + 2] = ends, rank
            soonest = math.min(soonest or ends, ends)
        else
            by_rank[#by_rank + 1], by_rank[#by_rank + 2] = rank, rank
        end
    end
    redis.call('ZREM', claimed, unpack(ranks))
    if #by_rank > 0 then
        redis.call('ZADD', ready, unpack(by_rank))
    end
    if #later > 0 then
        redis.call('ZADD', delayed, unpack(later))
    end
    return soonest
end
