-- Verbs on messages by their ranks, which are texts.
local verbs = {}
local changed = {}  -- groups that add() has added to

-- Note a new message by its tail. Returns its score in `ready`, or '': it waits in its group.
function verbs.add(rank, tail, is_delayed)
    local record = parsed(tail, 0)
    if record then
        redis.call('HSET', order, rank, record)
        local group = not is_delayed and group_of(record)
        if group then
            redis.call('ZADD', groups, 0, entry('w', group, rank))
            changed[group] = true
            return ''
        end
    end
    return string.format('%.0f', rank - weight_of(record))
end

function verbs.added()
    for group in pairs(changed) do
        open(group)
    end
    changed = {}
end

-- Make messages claimable, or let them wait in their groups; `opened` does not count them.
function verbs.free(ranks)
    local scores, groups_of, count = {}, {}, opened
    for place, record in ipairs(redis.call('HMGET', order, unpack(ranks))) do
        local rank, group = ranks[place], group_of(record)
        if not group then
            scores[#scores + 1] = string.format('%.0f', rank - weight_of(record))
            scores[#scores + 1] = rank
        else
            if not groups_of[group] then
                close(group)
                groups_of[group] = true
            end
            redis.call('ZREM', groups, entry('h', group, rank))
            redis.call('ZADD', groups, 0, entry('w', group, rank))
        end
    end
    if #scores > 0 then
        redis.call('ZADD', ready, unpack(scores))
    end
    for group in pairs(groups_of) do
        open(group)
    end
    opened = count
end

-- Let messages, which are not in `ready`, hold up their groups if they wait in them.
function verbs.hold(ranks)
    local records = is_grouped and redis.call('HMGET', order, unpack(ranks)) or {}
    for place, record in ipairs(records) do
        local group = group_of(record)
        if group and redis.call('ZREM', groups, entry('w', group, ranks[place])) == 1 then
            close(group)
            redis.call('ZADD', groups, 0, entry('h', group, ranks[place]))
        end
    end
end

-- Take messages, which are not in `ready`, out of their groups.
function verbs.leave(ranks)
    local left = {}
    local records = is_grouped and #ranks > 0 and redis.call('HMGET', order, unpack(ranks)) or {}
    for place, record in ipairs(records) do
        local group, rank = group_of(record), ranks[place]
        if group then
            redis.call('ZREM', groups, entry('w', group, rank), entry('h', group, rank))
            left[group] = true
        end
    end
    for group in pairs(left) do
        open(group)
    end
end

function verbs.forget(ranks)
    verbs.leave(ranks)
    redis.call('HDEL', order, unpack(ranks))
end

local own, lent = {}, {}  -- weights of groups that the caller holds; what it may take of them

-- Note what was taken out of `ready`: messages that the caller holds now, and dead letters, which
-- hold up nobody. Those that follow in its groups, at most `more`, are in `ready` until given().
function verbs.take(held, dead, more)
    local LENT = 1000  -- a millisecond or two
    if not is_grouped then
        return
    end
    local following, number = {}, 0
    for _, ranks in ipairs({held, dead}) do
        local records = #ranks > 0 and redis.call('HMGET', order, unpack(ranks)) or {}
        for place, record in ipairs(records) do
            local group = group_of(record)
            if group and ranks == held then
                redis.call('ZREM', groups, entry('w', group, ranks[place]))
                redis.call('ZADD', groups, 0, entry('h', group, ranks[place]))
                own[group] = own[group] or weight_of(record)
            end
            if group and own[group] and not following[group] then
                following[group], number = true, number + 1
            end
        end
    end
    verbs.leave(dead)
    for group in pairs(more > 0 and following or {}) do
        local most = math.max(1, math.min(more, math.floor(LENT / number)))
        for _, rank in ipairs(first_of('w', group, most)) do
            redis.call('ZADD', ready, string.format('%.0f', rank - own[group]), rank)
            lent[#lent + 1] = rank
        end
    end
end

function verbs.given()
    for from = 1, #lent, 1000 do  -- Lua cannot unpack more than about 8000 values
        redis.call('ZREM', ready, unpack(lent, from, math.min(from + 999, #lent)))
    end
end
