-- Check the queue itself, after its messages: {what, how often; of each finding}.
--#keys queue messages bodies claims leases idempotency idempotency_old dead_letters
--#keys dead_letters_old ledger ledger_ends move_lock sweep_index expiry claimed delayed
--#keys subscription_ends subscription_ids deliveries pending_due pending_ends delivery_states
--#keys delivery_lease delivery_index
--#args now:number epoch repair:flag
-- epoch: for a queue that has lost its own
--#include move_lock now findings next_sweep wake_notifier

local COUNTED = 20000  -- messages whose bytes are counted, in 20 ms; more only for a repair
local stray = false
local last_rank = tonumber(redis.call('ZRANGE', messages, -1, -1)[1] or 0)
local known = redis.call('HMGET', queue, 'epoch', 'created', 'metadata', 'rank')
if not (known[1] and known[2] and known[3]) then
    if last_rank > 0 or redis.call('EXISTS', queue) == 1 then
        note('head')
        if repair then
            redis.call('HSET', queue, 'epoch', known[1] or epoch, 'created', known[2] or now,
                'metadata', known[3] or '{}', 'unlisted', 1)
            if redis.call('EXISTS', subscription_ids) == 1 then
                redis.call('HSETNX', queue, 'subscribed', now)
            end
        end
    elseif redis.call('EXISTS', claims, leases, ledger, ledger_ends, unpack(generations)) > 0 then
        note('stray')
        stray = true
        if repair then
            redis.call('UNLINK', claims, leases, ledger, ledger_ends, unpack(generations))
        end
    end
end
if last_rank > tonumber(known[4] or 0) then
    note('rank')
    if repair then
        redis.call('HSET', queue, 'rank', string.format('%.0f', last_rank))
    end
end
for _, generation in ipairs(generations) do
    local times = redis.call('HMGET', generation, 'since', 'till')
    local bounded = tonumber(times[1]) and tonumber(times[2])
    if redis.call('EXISTS', generation) == 1 and not bounded then
        note('generation')
        if repair then  -- nobody knows when they would expire
            redis.call('UNLINK', generation)
        end
    end
end
local stored, limits = unpack(redis.call('HMGET', queue, 'bytes', 'limits'))
local counts = string.find(limits or '', '/', 1, true)
if counts and (repair or redis.call('ZCARD', expiry) <= COUNTED) then
--#include count_bytes
    if tonumber(stored) ~= bytes then
        note('bytes')
        if repair then
            redis.call('HSET', queue, 'bytes', bytes)
        end
    end
end
if redis.call('EXISTS', delivery_states) == 1 and redis.call('EXISTS', subscription_ids) == 1
    and redis.call('HEXISTS', queue, 'subscribed') == 0 then
    note('subscribed')
    if repair then
        redis.call('HSET', queue, 'subscribed', now)
    end
end
local next_due = redis.call('ZRANGE', pending_due, 0, 0, 'WITHSCORES')[2]
if redis.call('XLEN', deliveries) > 0 then
    next_due = now
end
local delivery_noted = redis.call('ZSCORE', delivery_index, string.sub(queue, 5, -2))
if next_due and not (delivery_noted and (redis.call('EXISTS', delivery_lease) == 1
    or tonumber(delivery_noted) <= math.max(now, tonumber(next_due)))) then
    note('delivery')
    if repair then
        redis.call('ZREM', delivery_index, string.sub(queue, 5, -2))
        wake_notifier(next_due)
    end
end
local soonest = next_sweep_time()
local ends = tonumber(soonest or math.huge)
local noted = tonumber(redis.call('HGET', queue, 'due') or 0)
local indexed = tonumber(redis.call('ZSCORE', sweep_index, string.sub(queue, 5, -2)) or math.huge)
if not stray and (indexed > ends or noted > ends or noted > 0 and indexed > noted) then
    note('due')
    if repair then
        schedule(soonest)
    end
end
return findings()
