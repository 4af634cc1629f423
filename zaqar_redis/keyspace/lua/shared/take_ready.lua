-- Take the oldest claimable messages out of `ready`, at most `limit`, and hand each to
-- keep(rank, envelope, count, hold before); those that were claimed too often go into `dead`. Sets
-- `taken`, their number, `left`, whether there may be more, and `soonest` for return_taken.lua.
local ROUNDS = 50  -- how often a page may be refilled before the caller asks again
local PAUSED_MS = 1000  -- after which a caller that waits may ask again
local DEAD_LETTER_HOLD_MS = 60000  -- how long a message is held that was claimed too often

local known = redis.call('HMGET', queue, 'epoch', 'dead_queue', 'dead_ttl', 'due', 'max_claims',
    'limits', 'order')
if not known[1] then
    return {now, false}
end
ordering, counted = known[7], string.find(known[6] or '', '/', 1, true)
local paused = known[6] and string.match(known[6], '%S+$')
if paused == 'claims' or paused == 'all' then
    return {now, known[1], 0, PAUSED_MS, {}, {}, known[2], known[3]}
end
local unsettled = false
if not known[4] or known[4] + 0 <= now then  -- before that nothing ends
    local _
    _, unsettled = settle()
end
if unsettled then  -- older messages may have to become ready first
    return {now, known[1], 1, false, {}, {}, known[2], known[3]}
end
local most = known[2] and tonumber(known[5])
local dead, soonest = {}, math.huge
local taken, left, round = 0, true, 0
local verbs = has_groups() and ordered()
while left and taken < limit and round < ROUNDS and #dead < 3 * SETTLE do
    round = round + 1
    local size = math.min(limit - taken, SETTLE)
    local page = verbs and verbs.expand(size, limit - taken)
        or redis.call('ZRANGE', ready, 0, size - 1)
    left = #page > 0
    if left then
        redis.call('ZREM', ready, unpack(page))
        local envelopes = redis.call('HMGET', bodies, unpack(page))
        local held = redis.call('HMGET', holds, unpack(page))
        local kept, over = verbs and {}, verbs and {}
        for place, rank in ipairs(page) do
            local count = count_of(held[place])
            if most and count >= most then
                -- Held by an internal claim: long enough to post it to the dead-letter queue
                -- and delete it here.
                soonest = now + DEAD_LETTER_HOLD_MS
                redis.call('ZADD', claimed, soonest, rank)
                redis.call('HSET', holds, rank, dead_letter_claim .. past_of(held[place]))
                local at = #dead
                dead[at + 1], dead[at + 2] = rank, envelopes[place]
                dead[at + 3] = dead_letter_claim .. past_of(held[place])
                if verbs then
                    over[#over + 1] = rank
                end
            else
                keep(rank, envelopes[place], count + 1, held[place])
                taken = taken + 1
                if verbs then
                    kept[#kept + 1] = rank
                end
            end
        end
        if verbs then
            verbs.take(kept, over)
        end
    end
end
soonest = math.min(soonest, resumes)
