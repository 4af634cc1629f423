-- Hold messages at the front of the queue that were claimed too often, a bounded number of them.
--
-- Returns the same as claim_create.lua; without such messages the queue is not told to have any.
--#keys queue bodies ready claimed holds move_lock sweep_index
--#args now:number dead_letter_claim
--#include move_lock now hold

local PAGE = 100  -- each of them is posted to another queue next
local HOLD_MS = 60000  -- as take_ready.lua holds them
local known = redis.call('HMGET', queue, 'epoch', 'dead_queue', 'dead_ttl', 'due', 'max_claims')
if not known[1] then
    return {now, false}
end
redis.call('HDEL', queue, 'exhausted')
local most = known[2] and tonumber(known[5])
local dead, soonest = {}, now + HOLD_MS
local page = most and redis.call('ZRANGE', ready, 0, PAGE - 1) or {}
for _, rank in ipairs(page) do
    local count = count_of(redis.call('HGET', holds, rank))
    if count < most then
        break
    end
    redis.call('ZREM', ready, rank)
    redis.call('ZADD', claimed, soonest, rank)
    redis.call('HSET', holds, rank, dead_letter_claim .. count)
    local at = #dead
    dead[at + 1], dead[at + 2] = rank, redis.call('HGET', bodies, rank)
    dead[at + 3] = dead_letter_claim .. count
end
if #dead > 0 then
    if #dead == 3 * PAGE then
        redis.call('HSET', queue, 'exhausted', 1)
    end
    local noted = known[4]
--#include note_sweep
end
return {now, known[1], 0, false, {}, dead, known[2], known[3]}
