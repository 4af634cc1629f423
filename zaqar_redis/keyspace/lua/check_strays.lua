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

local function has(entry)
    return redis.call('ZSCORE', groups, entry)
end

-- Whether an entry of `groups` is of a message, or of a group that has another one.
local function is_of_group(name)
    local kind, ends = string.byte(name), string.find(name, '\0', 1, true)
    if kind == 1 then  -- the mark of a group that has to wait
        local group = string.sub(name, 2)
        local from, to = '[' .. group .. '\0', '(' .. group .. '\1'
        return redis.call('ZRANGEBYLEX', groups, from, to, 'LIMIT', 0, 1)[1]
    elseif kind == 2 then  -- of a rest, by time: the time, and the group
        return has(string.sub(name, 19) .. '\0r' .. string.sub(name, 2, 18))
    elseif not ends then
        return false
    end
    local group = string.sub(name, 1, ends - 1)
    if string.sub(name, ends + 1, ends + 1) == 'r' then
        return has('\2' .. string.sub(name, ends + 2) .. group)
    end
    local rank = string.sub(name, ends + 3)
    return group == string.sub(redis.call('HGET', order, rank) or '', 4)
        and redis.call('ZSCORE', messages, rank)
end

local page = hash and redis.call('HSCAN', hash, cursor, 'COUNT', limit)
    or redis.call('ZSCAN', zset, cursor, 'COUNT', limit)
for at = 1, #page[2], 2 do
    local name = page[2][at]
    local is_stray
    if which == 'groups' then
        is_stray = not is_of_group(name)
    else
        is_stray = not redis.call('ZSCORE', messages, name)
    end
    if is_stray then
        if which == 'bodies' then
            restore(name, page[2][at + 1])
        else
            note('stray')
            if repair and hash then
                redis.call('HDEL', hash, name)
            elseif repair then
                redis.call('ZREM', zset, name)
            end
        end
    end
end
return {page[1], #page[2] / 2, findings()}
