-- Delete messages, all or none, if the caller may.
--
-- Returns {'deleted', how many}; {'claimed', rank} when one is held and no claim
-- was named; {'unheld', rank} when a claim was named and one is not held;
-- {'expired'} when the claim named is not alive; {'other', rank} when another
-- claim holds one.
--#keys queue @content move_lock
--#args now:number policy owners rest...
--#pubsub publish
-- policy: 'free': unless claimed; 'any'; 'held': by these claims
-- owners: ids of claims, 32 characters each
-- rest: epoch and rank of each message
--#include move_lock now order forget parked

local HOLDER = 32    -- characters of a hold that are the id of the claim
local RANK   = 16    -- characters of a rank at most
local SPENT  = 64    -- claims without messages at most; half of them when it is reached

local known = redis.call('HMGET', queue, 'epoch', 'order', 'bytes')
local epoch = known[1]
ordering, counted = known[2], known[3]
local ranks = {}
for place = rest, #ARGV, 2 do
    -- An id of another queue, or of an earlier epoch of this one, is skipped.
    if ARGV[place] == epoch then
        ranks[#ranks + 1] = ARGV[place + 1]
    end
end
if #ranks == 0 then
    return {'deleted', 0}
end
local gone, holders, refusal = {}, {}, nil
if policy == 'any' then
    gone = ranks
    for _, hold in ipairs(redis.call('HMGET', holds, unpack(ranks))) do
        if hold then
            holders[string.sub(hold, 1, HOLDER)] = true
        end
    end
else
    local mine, expires = {}, nil
    for from = 1, #owners, HOLDER do
        mine[string.sub(owners, from, from + HOLDER - 1)] = true
    end
    for place, until_ in ipairs(redis.call('ZMSCORE', claimed, unpack(ranks))) do
        local rank = ranks[place]
        until_ = tonumber(until_ or 0)
        if until_ > now and until_ < PARKED then  -- so it exists: it outlives its claim
            local holder = string.sub(redis.call('HGET', holds, rank), 1, HOLDER)
            if policy == 'free' then
                return {'claimed', rank}
            elseif not mine[holder] then
                refusal = {'other', rank}
                break
            end
            holders[holder] = true
            gone[#gone + 1] = rank
        else
            expires = expires or redis.call('ZMSCORE', expiry, unpack(ranks))
            if tonumber(expires[place] or 0) > now then
                if policy == 'held' then
                    refusal = {'unheld', rank}
                    break
                end
                gone[#gone + 1] = rank
            end
        end
    end
    if refusal then
        for owner in pairs(mine) do
            if tonumber(redis.call('ZSCORE', leases, owner) or 0) > now then
                return refusal
            end
        end
        return {'expired'}
    end
end
local count = forget(gone)
if opened > 0 then
    redis.call(publish, queue .. ':feed', opened)
end

-- A claim costs memory until its last message is gone, not until its lease ends: of claims
-- without messages only the latest stay, for clients that show or renew one while its messages
-- are deleted. They are deleted in batches: one by one would cost each deletion more.
local is_gone = {}
for _, rank in ipairs(gone) do
    is_gone[rank] = true
end
for claim in pairs(holders) do
    local record = redis.call('HGET', claims, claim)
    -- The last one first: messages of a claim are mostly deleted in their order.
    local last = record and string.match(record, '%d+$', -RANK)
    local held = last and not is_gone[last] and redis.call('ZSCORE', claimed, last)
    for rank in string.gmatch(not held and record or '', ' (%d+)') do
        held = held or (not is_gone[rank] and redis.call('ZSCORE', claimed, rank)
            and string.sub(redis.call('HGET', holds, rank), 1, HOLDER) == claim)
    end
    if record and not held and redis.call('RPUSH', spent, claim) == SPENT then
        local oldest = redis.call('LPOP', spent, SPENT / 2)
        redis.call('HDEL', claims, unpack(oldest))
        redis.call('ZREM', leases, unpack(oldest))
    end
end
return {'deleted', count}
