-- Release messages of a live claim: those that are named, or all that it still holds.
--
-- They are claimable at once, or after a delay. Returns {epoch, rank of each}, or false when there
-- is no such claim; a claim that holds nothing any more ends.
--#keys queue bodies ready claimed delayed holds order groups claims leases move_lock sweep_index
--#args now:number claim delay:number reason rest...
--#pubsub publish
-- delay: ms, or -1: as the queue says
-- reason: why they are given back, or '': none is known
-- rest: epoch and rank of each; none: all
--#include move_lock now order give_back named claim_record

local held, ttl, _, record = held_by(claim)
if not held then
    return false
end
local epoch = redis.call('HGET', queue, 'epoch')
local ranks = named(held, epoch, ARGV, rest)
local soonest
if #ranks > 0 then
    soonest = give_back(ranks, delay >= 0 and delay, false)
    for _, rank in ipairs(reason ~= '' and ranks or {}) do
        local hold = redis.call('HGET', holds, rank)
        local since = string.match(hold, '^%d+ (%d+)', 33) or string.format('%.0f', now)
        redis.call('HSET', holds, rank,
            string.format('%s%d %s ', holder_of(hold), count_of(hold), since) .. reason)
    end
end
if #ranks == #held then
    redis.call('ZREM', leases, claim)
    redis.call('HDEL', claims, claim)
elseif #ranks > 0 then
    -- Without them: who claims them next does not keep this claim from ending.
    local left, released = {}, {}
    for _, rank in ipairs(ranks) do
        released[rank] = true
    end
    for _, rank in ipairs(held) do
        if not released[rank] then
            left[#left + 1] = rank
        end
    end
    redis.call('HSET', claims, claim, claim_record(ttl, client_of_claim(record), left))
end
if #ranks > 0 then
    redis.call('HINCRBY', queue, 'released', #ranks)
    redis.call(publish, queue .. ':feed', #ranks)
end
if soonest then
    local noted = redis.call('HGET', queue, 'due')
--#include note_sweep
end
return {epoch, unpack(ranks)}
