-- Count a queue's messages, and read the oldest and the newest.
--
-- Returns {now, epoch, total, claimed, idempotency records, then rank, envelope and hold
-- (or false) of the oldest and of the newest}; {now, false} when there is no such queue;
-- {now, epoch} when more must be settled first: call again.
local queue           = KEYS[1]            -- hash: the queue itself
local messages        = KEYS[2]            -- zset: every message by rank
local bodies          = KEYS[3]            -- hash: rank -> envelope
local ready           = KEYS[4]            -- zset: claimable by rank
local claimed         = KEYS[5]            -- zset: held, by the end of the hold
local delayed         = KEYS[6]            -- zset: delayed, by the end of the delay
local expiry          = KEYS[7]            -- zset: every message by expiry
local holds           = KEYS[8]            -- hash: rank -> last claim and count
local claims          = KEYS[9]            -- hash: claim -> ttl and ranks
local leases          = KEYS[10]           -- zset: claims by the end of their lease
local move_lock       = KEYS[11]           -- string: the move lock, while the queue moves
local idempotency     = KEYS[12]           -- hash: idempotency key digest -> the answer given
local idempotency_old = KEYS[13]           -- the same of the window before
local now             = tonumber(ARGV[1])  -- ms; 0: the time of Redis
--#include move_lock
--#include now
--#include forget
--#include settle

local epoch = redis.call('HGET', queue, 'epoch')
if not epoch then
    return {now, false}
end
local _, unsettled = settle()
if unsettled then
    return {now, epoch}
end
local records = 0
for _, generation in ipairs({idempotency, idempotency_old}) do
    if tonumber(redis.call('HGET', generation, 'till') or 0) > now then
        records = records + redis.call('HLEN', generation) - 2  -- two fields are its times
    end
end
local answer = {now, epoch, redis.call('ZCARD', messages), redis.call('ZCARD', claimed), records}
for _, range in ipairs({'ZRANGE', 'ZREVRANGE'}) do
    local rank = redis.call(range, messages, 0, 0)[1]
    if rank then
        answer[#answer + 1] = rank
        answer[#answer + 1] = redis.call('HGET', bodies, rank)
        answer[#answer + 1] = redis.call('ZSCORE', claimed, rank) and redis.call('HGET', holds, rank)
    end
end
return answer
