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
--#include move_lock now settle

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
local total, held, waiting = redis.call('ZCARD', messages), redis.call('ZCARD', claimed),
    redis.call('ZCARD', delayed)
local counters = redis.call('HMGET', queue, 'rank', 'claimed', 'released', 'expired', 'purged',
    'dead_lettered')
if unsettled then  -- a message does not expire while it is claimed
    local later = string.format('(%.0f', now)
    local gone = redis.call('ZCOUNT', expiry, '-inf', now)
    total, counters[4] = total - gone, (counters[4] or 0) + gone
    held = redis.call('ZCOUNT', claimed, later, '+inf')
    waiting = redis.call('ZCOUNT', delayed, later, '+inf')
end
local answer = {now, epoch, total, held, waiting, records, unpack(counters)}
for _, range in ipairs({'ZRANGE', 'ZREVRANGE'}) do
    local rank = redis.call(range, messages, 0, 0)[1]
    if rank then
        answer[#answer + 1] = rank
        answer[#answer + 1] = redis.call('HGET', bodies, rank)
        answer[#answer + 1] = redis.call('ZSCORE', claimed, rank)
            and redis.call('HGET', holds, rank)
    end
end
return answer
