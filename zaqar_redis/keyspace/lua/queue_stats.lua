-- Count a queue's messages, and read the oldest and the newest.
--
-- Returns {now, epoch, total, claimed, delayed, idempotency records, last rank, the counters
-- (false: 0), then rank, envelope and hold (or false) of the oldest and of the newest;
-- {now, false} when there is no such queue; {now, epoch} when more must be settled first: call
-- again.
--#keys queue @message claims leases move_lock idempotency idempotency_old
--#args now:number anyway:flag
--#pubsub publish
-- anyway: answer though more must be settled; then the oldest may have expired
--#include move_lock now envelope settle

local epoch = redis.call('HGET', queue, 'epoch')
if not epoch then
    return {now, false}
end
local _, unsettled = settle()
if unsettled and not anyway then
    return {now, epoch}
end
local records = 0
for _, generation in ipairs({idempotency, idempotency_old}) do
    if tonumber(redis.call('HGET', generation, 'till') or 0) > now then
        records = records + redis.call('HLEN', generation) - 2  -- two fields are its times
    end
end
local parked = redis.call('ZCOUNT', claimed, PARKED, '+inf')
local total, held, waiting = redis.call('ZCARD', messages) - parked,
    redis.call('ZCARD', claimed) - parked, redis.call('ZCARD', delayed)
local counters = redis.call('HMGET', queue, 'rank', 'claimed', 'released', 'expired', 'purged',
    'dead_lettered', 'dropped', 'refused')
counters[6] = (counters[6] or 0) + parked
if unsettled then  -- a message does not expire while it is claimed
    local later = string.format('(%.0f', now)
    local gone = redis.call('ZCOUNT', expiry, '-inf', now)
    local lost = redis.call('HMGET', queue, 'on_expiry', 'dead_queue')
    local place = lost[1] == 'dead_letter' and lost[2] and 6 or 4
    total, counters[place] = total - gone, (counters[place] or 0) + gone
    held = redis.call('ZCOUNT', claimed, later, '+inf') - parked
    waiting = redis.call('ZCOUNT', delayed, later, '+inf')
end
local answer = {now, epoch, total, held, waiting, records, unpack(counters)}
--#include end_alive
local ends = {}
for _, range in ipairs({'ZRANGE', 'ZREVRANGE'}) do
    local rank, envelope = end_alive(range, 0)
    if rank then
        ends[#ends + 1], ends[#ends + 2] = rank, envelope
        ends[#ends + 1] = redis.call('ZSCORE', claimed, rank) and redis.call('HGET', holds, rank)
    end
end
for place = 1, #ends == 6 and 6 or 0 do
    answer[#answer + 1] = ends[place]
end
return answer
