-- Check that every entry about a message is about one that the queue has.
--
-- A body without its message is one that was posted and got lost: it is restored. All
-- other entries are removed.
--
-- Returns {where to go on or '0', how many, {what, how often; of each finding}}.
--#keys @message move_lock
--#args which cursor limit:number repair:flag
-- which: name of one of these keys
--#include move_lock valid_envelope findings

local hash = ({bodies = bodies, holds = holds, order = order})[which]
local zset = ({ready = ready, claimed = claimed, delayed = delayed, expiry = expiry,
    groups = groups})[which]

local function restore(rank, envelope)
    if not is_valid_envelope(envelope) or not tonumber(rank) then
        note('envelope')
        return
    end
    note('message')
    if not repair then
        return
    end
    redis.call('ZADD', messages, rank, rank)
    redis.call('ZADD', expiry, string.format('%.0f', expiry_of(envelope)), rank)
    if not (redis.call('ZSCORE', claimed, rank) or redis.call('ZSCORE', delayed, rank)) then
        redis.call('ZADD', ready, rank, rank)
    end
end

local page = hash and redis.call('HSCAN', hash, cursor, 'COUNT', limit)
    or redis.call('ZSCAN', zset, cursor, 'COUNT', limit)
for at = 1, #page[2], 2 do
    local rank = page[2][at]
    local name = rank
    local is_mark = which == 'groups' and string.byte(name) == 1
    if is_mark then  -- of a group that waits
        local group = string.sub(name, 2)
        rank = redis.call('ZRANGEBYLEX', groups, '[' .. group .. '\0', '(' .. group .. '\1', 'LIMIT',
            0, 1)[1]
    elseif which == 'groups' then  -- of an entry for a rank: state, group, rank
        local ends = string.find(name, '\0', 1, true) or 0
        rank = string.sub(name, ends + 3)
        local group = string.sub(redis.call('HGET', order, rank) or '', 4)
        rank = group == string.sub(name, 1, ends - 1) and rank or ''
    end
    if not rank or not is_mark and not redis.call('ZSCORE', messages, rank) then
        if which == 'bodies' then
            restore(rank, page[2][at + 1])
        else
            note('stray')
            if repair and hash then
                redis.call('HDEL', hash, rank)
            elseif repair then
                redis.call('ZREM', zset, name)
            end
        end
    end
end
return {page[1], #page[2] / 2, findings()}
