-- List live claims that hold messages, by the end of their leases, and change nothing.
--
-- Returns {now, id of the claim looked at last or false when it was the last one, the end of its
-- lease, then id, ttl, end of the lease, number of messages and client (or '') of each}.
--#keys holds claimed claims leases move_lock
--#args now:number after:number after_claim limit:number
-- after, after_claim: end of the lease, and id, of the claim to go on behind
--#include move_lock now hold claim_record

local PAGE = 100  -- claims read at once
local RANKS = 1000  -- ranks a command: Lua cannot unpack more than about 8000 values
local SCAN = 10000  -- ranks and claims looked at in one call; the caller goes on behind them
local answer, scanned, offset = {now, false, 0}, 0, 0
local from = string.format('%.0f', math.max(after, now + 1))

local function count_held(claim, record)
    local ranks, held = {}, 0
    for rank in string.gmatch(record, ' (%d+)') do
        ranks[#ranks + 1] = rank
    end
    for first = 1, #ranks, RANKS do
        local last = math.min(first + RANKS - 1, #ranks)
        local ends = redis.call('ZMSCORE', claimed, unpack(ranks, first, last))
        for place, hold in ipairs(redis.call('HMGET', holds, unpack(ranks, first, last))) do
            if tonumber(ends[place] or 0) > now and holder_of(hold) == claim then
                held = held + 1
            end
        end
    end
    scanned = scanned + #ranks
    return held
end

while true do
    local page = redis.call(
        'ZRANGEBYSCORE', leases, from, '+inf', 'WITHSCORES', 'LIMIT', offset, PAGE)
    for at = 1, #page, 2 do
        local claim, lease = page[at], page[at + 1]
        if tonumber(lease) > after or claim > after_claim then
            local record = redis.call('HGET', claims, claim)
            local held = count_held(claim, record)
            if held > 0 then
                answer[#answer + 1] = claim
                answer[#answer + 1] = tonumber(string.match(record, '%d+'))
                answer[#answer + 1] = tonumber(lease)
                answer[#answer + 1] = held
                answer[#answer + 1] = client_of_claim(record)
            end
        end
        scanned = scanned + 1
        if #answer == 3 + 5 * limit or scanned >= SCAN then
            answer[2], answer[3] = claim, tonumber(lease)
            return answer
        end
    end
    if #page < 2 * PAGE then
        return answer
    end
    offset = offset + PAGE
end
