-- Read the figures of a queue that operators watch. Nothing is written: what time has ended is
-- not counted, and not settled either. So a move lock is no obstacle.
--
-- Returns {now, epoch, created, dead-letter queue, total, expired but stored, claimed, delayed,
-- subscriptions, failing ones, what is done on expiry, last rank, the counters (false: 0)}, then
-- when the oldest message was created, the bytes of one of all, the claim that holds it, when that
-- was made or renewed, and its client or ''; of these what there is. {now, false}: no such queue.
-- Failing ones: false, or {how many, and of one its id, since when, and its last failure}.
--#keys queue messages bodies claimed delayed expiry holds claims leases subscription_ends
--#keys delivery_states
--#args now:number
--#include now envelope claim_record parked sampled_size

local fields = redis.call('HMGET', queue, 'epoch', 'created', 'dead_queue', 'rank', 'claimed',
    'released', 'expired', 'purged', 'dead_lettered', 'dropped', 'refused', 'on_expiry')
if not fields[1] then
    return {now, false}
end
local later = string.format('(%.0f', now)
local function count(waiting)
    return redis.call('ZCOUNT', waiting, later, '+inf')
end
local function failing()
    local known = redis.call('HGET', delivery_states, 'failing')
    if not known then
        return false
    end
    local id = string.match(known, '%S+')
    local _, number = string.gsub(known, '%S+', '')
    local state = redis.call('HMGET', delivery_states, id .. ' failing', id .. ' last')
    return {number, id, state[1], state[2]}
end
local total, parked = count(expiry), redis.call('ZCOUNT', claimed, PARKED, '+inf')
fields[9] = (fields[9] or 0) + parked
local answer = {now, fields[1], fields[2], fields[3], total, redis.call('ZCARD', expiry) - total,
    count(claimed) - parked, count(delayed), count(subscription_ends), failing(), fields[12],
    unpack(fields, 4, 11)}
if total == 0 then
    return answer
end
--#include end_alive
local rank, envelope = end_alive('ZRANGE', now)
if envelope then
    answer[20], answer[21] = string.format('%.0f', created_of(envelope)), math.ceil(sampled_size())
    local held = tonumber(redis.call('ZSCORE', claimed, rank) or 0) > now
    local claim = held and string.sub(redis.call('HGET', holds, rank) or '', 1, 32)
    local record = claim and redis.call('HGET', claims, claim)
    local ttl = record and string.match(record, '^%d+')
    local ends = ttl and redis.call('ZSCORE', leases, claim)
    if ends then
        answer[22], answer[23] = claim, string.format('%.0f', ends - ttl * 1000)
        answer[24] = client_of_claim(record)
    end
end
return answer
