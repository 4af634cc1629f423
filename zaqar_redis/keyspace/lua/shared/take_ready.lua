-- Take the oldest claimable messages out of `ready`, at most `limit`, and hand
-- each to keep(rank, envelope, count); those that were claimed too often go to
-- dead_letter(rank, envelope, count). Needs settle() first: then none of them has expired.
local ROUNDS = 50  -- how often a page may be refilled before the caller asks again
local DEAD_LETTER_HOLD_MS = 60000  -- how long a message is held that was claimed too often

local function take(keep, dead_letter)
    local policy = redis.call('HMGET', queue, 'max_claims', 'dead_queue')
    local most = policy[2] and tonumber(policy[1])
    local taken, round = 0, 0
    while taken < limit and round < ROUNDS do
        round = round + 1
        local ranks = redis.call('ZRANGE', ready, 0, math.min(limit - taken, SETTLE) - 1)
        if #ranks == 0 then
            return taken, false
        end
        redis.call('ZREM', ready, unpack(ranks))
        local envelopes = redis.call('HMGET', bodies, unpack(ranks))
        local held = redis.call('HMGET', holds, unpack(ranks))
        for place, rank in ipairs(ranks) do
            local count = count_of(held[place])
            if most and count >= most then
                dead_letter(rank, envelopes[place], count)
            else
                keep(rank, envelopes[place], count + 1)
                taken = taken + 1
            end
        end
    end
    return taken, true
end

-- A message that was claimed too often is held for a minute by `dead_letter_claim`, an
-- internal claim: long enough to post it to the dead-letter queue and delete it here.
local function dead_letter(rank, envelope, count)
    redis.call('ZADD', claimed, now + DEAD_LETTER_HOLD_MS, rank)
    redis.call('HSET', holds, rank, dead_letter_claim .. count)
    dead[#dead + 1] = rank
    dead[#dead + 1] = envelope
    dead[#dead + 1] = dead_letter_claim .. count
end
