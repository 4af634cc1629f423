-- Take the oldest claimable messages out of `ready`, at most `limit`, and hand
-- each to keep(rank, envelope, count). Expired ones are forgotten on the way;
-- those that were claimed too often go to bury(rank, envelope, count).
local ROUNDS = 50  -- how often a page may be refilled before the caller asks again

local function take(keep, bury)
    local policy = redis.call('HMGET', queue, 'max_claims', 'dead_queue')
    local most = policy[2] and tonumber(policy[1])
    local taken, round, left = 0, 0, true
    while taken < limit and round < ROUNDS do
        round = round + 1
        local ranks = redis.call('ZRANGE', ready, 0, math.min(limit - taken, SETTLE) - 1)
        if #ranks == 0 then
            left = false
            break
        end
        redis.call('ZREM', ready, unpack(ranks))
        local envelopes = redis.call('HMGET', bodies, unpack(ranks))
        local held = redis.call('HMGET', holds, unpack(ranks))
        local gone = {}
        for place, rank in ipairs(ranks) do
            local envelope, count = envelopes[place], count_of(held[place])
            if not envelope or expiry_of(envelope) <= now then
                gone[#gone + 1] = rank
            elseif most and count >= most then
                bury(rank, envelope, count)
            else
                keep(rank, envelope, count + 1)
                taken = taken + 1
            end
        end
        forget(gone)
    end
    return taken, left
end

-- A message that was claimed too often is held for a minute by `burial`, a claim
-- of our own: long enough to post it to the dead-letter queue and delete it here.
local function bury(rank, envelope, count)
    redis.call('ZADD', claimed, now + 60000, rank)
    redis.call('HSET', holds, rank, burial .. count)
    dead[#dead + 1] = rank
    dead[#dead + 1] = envelope
    dead[#dead + 1] = burial .. count
end
