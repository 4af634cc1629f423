-- Check the queue itself, after its messages: {what, how often; of each finding}.
local queue             = KEYS[1]            -- hash: the queue itself
local messages          = KEYS[2]            -- zset: every message by rank
local claims            = KEYS[3]            -- hash: claim -> ttl and ranks
local leases            = KEYS[4]            -- zset: claims by the end of their lease
local idempotency       = KEYS[5]            -- hash: idempotency key digest -> the answer given
local idempotency_old   = KEYS[6]            -- the same of the window before
local dead_letters      = KEYS[7]            -- hash: digest of a dead letter that was posted
local dead_letters_old  = KEYS[8]            -- the same of the window before
local ledger            = KEYS[9]            -- hash: writer -> its entry in the ledger
local ledger_ends       = KEYS[10]           -- zset: entries by the time they expire
local move_lock         = KEYS[11]           -- string: the move lock, while the queue moves
local sweep_index       = KEYS[12]           -- zset: queues of the slot by their next sweep
local expiry            = KEYS[13]           -- zset: every message by expiry
local claimed           = KEYS[14]           -- zset: held, by the end of the hold
local delayed           = KEYS[15]           -- zset: delayed, by the end of the delay
local subscription_ends = KEYS[16]           -- zset: ids of subscriptions by expiry
local now               = tonumber(ARGV[1])  -- ms; 0: the time of Redis
local epoch             = ARGV[2]            -- for a queue that has lost its own
local repair            = ARGV[3]            -- '1': repair it
--#include move_lock
--#include now
--#include findings
--#include expiring_records
--#include next_sweep

local stray = false
local last_rank = tonumber(redis.call('ZRANGE', messages, -1, -1)[1] or 0)
local known = redis.call('HMGET', queue, 'epoch', 'created', 'metadata', 'rank')
if not (known[1] and known[2] and known[3]) then
    if last_rank > 0 or redis.call('EXISTS', queue) == 1 then
        note('head')
        if repair == '1' then
            redis.call('HSET', queue, 'epoch', known[1] or epoch, 'created', known[2] or now,
                'metadata', known[3] or '{}', 'unlisted', 1)
        end
    elseif redis.call('EXISTS', claims, leases, ledger, ledger_ends, unpack(generations)) > 0 then
        note('stray')
        stray = true
        if repair == '1' then
            redis.call('UNLINK', claims, leases, ledger, ledger_ends, unpack(generations))
        end
    end
end
if last_rank > tonumber(known[4] or 0) then
    note('rank')
    if repair == '1' then
        redis.call('HSET', queue, 'rank', string.format('%.0f', last_rank))
    end
end
for _, generation in ipairs(generations) do
    local times = redis.call('HMGET', generation, 'since', 'till')
    if redis.call('EXISTS', generation) == 1 and not (tonumber(times[1]) and tonumber(times[2])) then
        note('generation')
        if repair == '1' then  -- nobody knows when they would expire
            redis.call('UNLINK', generation)
        end
    end
end
local soonest = next_sweep_time()
local noted = tonumber(redis.call('HGET', queue, 'due') or math.huge)
local indexed = tonumber(redis.call('ZSCORE', sweep_index, string.sub(queue, 5, -2)) or math.huge)
if not stray and indexed > math.min(noted, tonumber(soonest or math.huge)) then
    note('due')
    if repair == '1' then
        schedule(soonest)
    end
end
return findings()
