-- Hold dead letters, a bounded number of them: messages that are parked, and those at the front of
-- the queue that were claimed too often.
--
-- Returns the same as claim_create.lua; without such messages the queue is not told to have any.
--#keys queue @message move_lock sweep_index
--#args now:number dead_letter_claim
--#pubsub publish
--#include move_lock now envelope hold order free forget parked

local PAGE = 100  -- each of them is posted to another queue next
local HOLD_MS = 60000  -- as take_ready.lua holds them
local PARKED_MS = 86400000  -- a day: for as long the other queue's store may be away
local known = redis.call('HMGET', queue, 'epoch', 'dead_queue', 'dead_ttl', 'due', 'max_claims')
if not known[1] then
    return {now, false}
end
redis.call('HDEL', queue, 'exhausted')
local dead, soonest = {}, now + HOLD_MS
local function ttl_of(envelope)
    local value = 0
    for byte = 21, 24 do
        value = value * 256 + string.byte(envelope, byte)
    end
    return value
end
local function hold(rank, ends)
    local at, past = #dead, past_of(redis.call('HGET', holds, rank))
    redis.call('ZADD', claimed, ends, rank)
    redis.call('HSET', holds, rank, dead_letter_claim .. past)
    dead[at + 1], dead[at + 2] = rank, redis.call('HGET', bodies, rank)
    dead[at + 3] = dead_letter_claim .. past
end

local parked = redis.call('ZRANGEBYSCORE', claimed, PARKED, PARKED + now - HOLD_MS, 'LIMIT', 0,
    PAGE)
local over = {}
for _, rank in ipairs(parked) do
    local envelope = redis.call('HGET', bodies, rank)
    local ends = created_of(envelope) + ttl_of(envelope) * 1000
    if known[2] and expiry_of(envelope) + PARKED_MS > now then
        hold(rank, PARKED + now)
    elseif not known[2] and ends > now then  -- what a full queue has parked, for nobody now
        redis.call('HSET', bodies, rank, prolonged(envelope, ends, ttl_of(envelope)))
        redis.call('ZREM', claimed, rank)
        free({rank})
        redis.call('ZADD', expiry, string.format('%.0f', ends), rank)
        if counted then
            redis.call('HINCRBY', queue, 'bytes', #envelope)
        end
    else
        over[#over + 1] = rank
    end
end
if #over > 0 then
    redis.call('HINCRBY', queue, 'expired', forget(over))
end
if redis.call('ZCOUNT', claimed, PARKED, '+inf') > 0 then
    redis.call('HSET', queue, 'exhausted', 1)
end

local most = known[2] and tonumber(known[5])
local verbs = ordered()
local page = most and redis.call('ZRANGE', ready, 0, PAGE - 1) or {}
for place, rank in ipairs(page) do
    if count_of(redis.call('HGET', holds, rank)) < most then
        break
    end
    redis.call('ZREM', ready, rank)
    if verbs then
        verbs.leave({rank})
    end
    hold(rank, soonest)
    if place == PAGE then
        redis.call('HSET', queue, 'exhausted', 1)
    end
end
if opened > 0 then
    redis.call('HSET', queue, 'exhausted', 1)  -- the next of the group may be another one
    redis.call(publish, queue .. ':feed', opened)
end
if #dead > 0 then
    local noted = known[4]
--#include note_sweep
end
return {now, known[1], 0, false, {}, dead, known[2], known[3]}
