-- The verbs of all queues with groups; those that differ are in order_ordered.lua and
-- order_fair.lua.
local is_fair = mode == 'fair'  -- then messages without a group are one, too
local keeps_places = true  -- whether what is held has an entry

-- An entry of `groups`. The digits of the rank come before it, so that entries are in its order.
local function entry(state, group, rank)
    return group .. '\0' .. state .. string.char(#rank) .. rank
end

local function rank_in(entry_, group)
    return string.sub(entry_, #group + 4)
end

-- The first entries of a group: those that hold it up, and those that wait.
local function first_of(group, limit, from)
    return redis.call('ZRANGEBYLEX', groups, '[' .. group .. '\0' .. (from or ''), '(' .. group
        .. '\1', 'LIMIT', '0', limit)
end

local next_of  -- the rank of the message that can be claimed of a group, or nil
local close, open  -- take it out of `ready`, and put it in

local function open_all(changed)
    for group in pairs(changed) do
        open(group)
    end
end

-- The groups of messages, or false.
function verbs.groups_of(ranks)
    local found = #ranks > 0 and redis.call('HMGET', order, unpack(ranks)) or {}
    for place, record in ipairs(found) do
        local group = record and string.sub(record, 4) or ''
        found[place] = (group ~= '' or is_fair) and group
    end
    return found
end

local added = {}

function verbs.add(rank, tail, is_delayed)
    local record = record_of(tail)
    local group = record and string.sub(record, 4) or ''
    if record then
        redis.call('HSET', order, rank, record)
    end
    if is_delayed or group == '' and not is_fair then
        return score_of(rank, record)
    end
    redis.call('ZADD', groups, '0', entry('w', group, rank))
    added[group] = true
    return ''
end

function verbs.added()
    open_all(added)
    added = {}
    return resumes
end

local group_of = {}  -- by rank, of what was taken

-- Remove entries of messages in that state. Returns how many there were.
local function remove(state, ranks, found)
    local entries = {}
    for place, group in ipairs(found) do
        if group then
            entries[#entries + 1] = entry(state, group, ranks[place])
        end
    end
    return #entries > 0 and redis.call('ZREM', groups, unpack(entries)) or 0, #entries
end

-- What expand() has returned is held now, or it is a dead letter, which holds up nobody.
function verbs.take(held, dead)
    local wait, hold = {}, {}
    for _, rank in ipairs(held) do
        local group = group_of[rank]
        if group then
            wait[#wait + 1] = entry('w', group, rank)
            if keeps_places then
                hold[#hold + 1], hold[#hold + 2] = '0', entry('h', group, rank)
            end
        end
    end
    if #wait > 0 then
        redis.call('ZREM', groups, unpack(wait))
    end
    if #hold > 0 then
        redis.call('ZADD', groups, unpack(hold))
    end
    if #dead > 0 then
        verbs.leave(dead)
    end
end
