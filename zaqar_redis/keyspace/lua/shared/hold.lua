-- A hold is the id of the claim that took a message last (32 characters) and its past, separated by
-- blanks: how often it has been taken, and where no older release works on the store, when first
-- (ms), and the reason for which it was given back last. It binds only while the message is in
-- `claimed`.
local function holder_of(hold)
    return hold and string.sub(hold, 1, 32)
end

local function count_of(hold)
    return hold and tonumber(string.match(hold, '^%d+', 33)) or 0
end

local function past_of(hold)
    return hold and string.sub(hold, 33) or '0'
end

-- The ranks of a live claim that it still holds, its TTL, end and record; nil if there is no such
-- claim.
local function held_by(claim)
    local lease = tonumber(redis.call('ZSCORE', leases, claim) or 0)
    if lease <= now then
        return nil
    end
    local record = redis.call('HGET', claims, claim)
    local ranks = {}
    local ttl
    for word in string.gmatch(record, '%d+') do
        if not ttl then
            ttl = tonumber(word)
        elseif holder_of(redis.call('HGET', holds, word)) == claim
            and tonumber(redis.call('ZSCORE', claimed, word) or 0) > now then
            ranks[#ranks + 1] = word
        end
    end
    return ranks, ttl, lease, record
end
