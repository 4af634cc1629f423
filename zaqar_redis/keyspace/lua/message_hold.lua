-- Hold messages by an internal claim, except those that are claimed: long enough to post them to
-- another queue and to delete them here. A delayed one stays delayed if that never happens.
--
-- Returns {now, epoch or false, then rank, envelope and hold of each, in the order given}.
--#keys queue bodies ready claimed delayed expiry holds order groups move_lock sweep_index
--#args now:number holder rest...
-- holder: id of the internal claim, 32 characters
-- rest: epoch and rank of each
--#include move_lock now hold order

local HOLD_MS = 60000
local known = redis.call('HMGET', queue, 'epoch', 'due')
local verbs = ordered()
local page, soonest = {now, known[1]}, math.huge
for place = rest, #ARGV, 2 do
    local rank = ARGV[place + 1]
    local alive = ARGV[place] == known[1]
        and tonumber(redis.call('ZSCORE', expiry, rank) or 0) > now
    if alive and tonumber(redis.call('ZSCORE', claimed, rank) or 0) <= now then
        local hold = holder .. past_of(redis.call('HGET', holds, rank))
        local ends = math.max(
            now + HOLD_MS, tonumber(redis.call('ZSCORE', delayed, rank) or 0))
        redis.call('ZREM', ready, rank)
        redis.call('ZREM', delayed, rank)
        if verbs then
            verbs.hold_to_move({rank})
        end
        redis.call('ZADD', claimed, ends, rank)
        redis.call('HSET', holds, rank, hold)
        soonest = math.min(soonest, ends)
        page[#page + 1] = rank
        page[#page + 1] = redis.call('HGET', bodies, rank)
        page[#page + 1] = hold
    end
end
if soonest < math.huge then
    local noted = known[2]
--#include note_sweep
end
return page
