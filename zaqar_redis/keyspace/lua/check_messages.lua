-- Check a page of messages, and repair what can be repaired.
--
-- Returns {rank of the last one or '', how many, {what, how often; of each finding}}.
--#keys queue @message leases move_lock
--#args now:number after limit:number repair:flag
-- after: rank to go on behind
--#include move_lock now valid_envelope findings parked

local ranks = redis.call('ZRANGEBYSCORE', messages, '(' .. after, '+inf', 'LIMIT', 0, limit)
if #ranks == 0 then
    return {'', 0, {}}
end
local last = redis.call('ZSCORE', messages, ranks[#ranks])
local scores = redis.call('ZMSCORE', messages, unpack(ranks))
local envelopes = redis.call('HMGET', bodies, unpack(ranks))
local held = redis.call('HMGET', holds, unpack(ranks))
local ends = redis.call('ZMSCORE', expiry, unpack(ranks))
local states = {}
for _, state in ipairs({claimed, delayed, ready}) do
    states[state] = redis.call('ZMSCORE', state, unpack(ranks))
end

local ordering = redis.call('HGET', queue, 'order')
local opened, resumes = 0, math.huge
local by_order, fault_in_group
if ordering then
--#include order_verbs
    if mode ~= 'none' then
--#include order_groups
        if mode == 'fair' then
--#include order_fair
        else
--#include order_ordered
        end
--#include order_check
        fault_in_group = group_fault
    end
    by_order = verbs
end

local function fix(...)
    if repair then
        redis.call(...)
    end
end

local function free(rank)
    if repair and by_order then
        by_order.free({rank})
    else
        fix('ZADD', ready, rank, rank)
    end
end

for place, rank in ipairs(ranks) do
    local envelope = envelopes[place]
    if not envelope then
        note('body')
        for _, set in ipairs({messages, ready, claimed, delayed, expiry}) do
            fix('ZREM', set, rank)
        end
        fix('HDEL', holds, rank)
        if repair and by_order then
            by_order.leave({rank})
            redis.call('HDEL', order, rank)
        end
    else
        if tonumber(scores[place]) ~= tonumber(rank) then
            note('order')
            fix('ZADD', messages, rank, rank)
        end
        if not is_valid_envelope(envelope) then
            note('envelope')
        elseif tonumber(ends[place] or 0) ~= expiry_of(envelope)
            and tonumber(states[claimed][place] or 0) < PARKED then
            note('expiry')
            fix('ZADD', expiry, string.format('%.0f', expiry_of(envelope)), rank)
        end
        local state
        for _, other in ipairs({claimed, delayed, ready}) do
            if states[other][place] and state then
                note('twice')
                fix('ZREM', other, rank)
            end
            state = state or (states[other][place] and other)
        end
        local in_group, fault, repair_group
        if fault_in_group then
            local is_free = not state or state == ready
            local holder = state == claimed and held[place] and string.sub(held[place], 1, 32)
            in_group, fault, repair_group = fault_in_group(rank, states[ready][place], is_free,
                state == delayed, holder and redis.call('ZSCORE', leases, holder))
        end
        local score = not in_group and tonumber(states[ready][place])
        if fault then
            note(fault)
            if repair then
                redis.call('ZREM', ready, rank)
                repair_group({rank})
            end
        elseif not state and not in_group then
            note('nowhere')
            free(rank)
        elseif state == claimed and not held[place] then
            note('hold')
            fix('ZREM', claimed, rank)
            free(rank)
        elseif state == ready and score and score ~= tonumber(rank)
            and not (by_order and score < tonumber(rank)) then
            note('order')
            free(rank)
        end
    end
end
return {last, #ranks, findings()}
