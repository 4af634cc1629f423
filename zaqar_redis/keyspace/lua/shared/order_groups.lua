-- The verbs of a queue whose groups are ordered; order_fair.lua replaces those that differ where
-- groups take turns.
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
        .. '\1', 'LIMIT', 0, limit)
end

-- The rank of the message that can be claimed of a group, or nil.
local function next_of(group)
    local first = first_of(group, 1)[1]
    local waits = first and string.sub(first, #group + 2, #group + 2) == 'w'
    return waits and rank_in(first, group) or nil
end

local function close(group)
    local rank = next_of(group)
    if rank then
        redis.call('ZREM', ready, rank)
    end
end

local function open(group)
    local rank = next_of(group)
    if rank then
        local record = step ~= '0' and redis.call('HGET', order, rank)
        opened = opened + redis.call('ZADD', ready, score_of(rank, record), rank)
    end
end

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
    redis.call('ZADD', groups, 0, entry('w', group, rank))
    added[group] = true
    return ''
end

function verbs.added()
    open_all(added)
    added = {}
    return resumes
end

-- Make messages claimable, or let them wait in their groups; `opened` does not count them.
local free = verbs.free
function verbs.free(ranks)
    local alone, changed, count = {}, {}, opened
    for place, group in ipairs(verbs.groups_of(ranks)) do
        local rank = ranks[place]
        if group then
            if not changed[group] then
                close(group)
                changed[group] = true
            end
            redis.call('ZREM', groups, entry('h', group, rank))
            redis.call('ZADD', groups, 0, entry('w', group, rank))
        else
            alone[#alone + 1] = rank
        end
    end
    if #alone > 0 then
        free(alone)
    end
    open_all(changed)
    opened = count
end

local group_of = {}  -- by rank, of what was taken

-- What can be taken of a page of `ready`: behind each message others of its group, as long as there
-- is room.
function verbs.expand(page, room)
    local ranks = {}
    for place, group in ipairs(verbs.groups_of(page)) do
        local left = room - #ranks
        if left == 0 then
            break
        end
        for _, waiting in ipairs(group and first_of(group, left, 'w') or {}) do
            ranks[#ranks + 1] = rank_in(waiting, group)
            group_of[ranks[#ranks]] = group
        end
        if not group then
            ranks[#ranks + 1] = page[place]
        end
    end
    return ranks
end

-- Let messages, which are not in `ready`, hold up their groups if they wait in them.
function verbs.hold(ranks)
    for place, group in ipairs(verbs.groups_of(ranks)) do
        local rank = ranks[place]
        if group and redis.call('ZREM', groups, entry('w', group, rank)) == 1 then
            close(group)
            redis.call('ZADD', groups, 0, entry('h', group, rank))
        end
    end
end

verbs.hold_to_move = verbs.hold

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

-- Take messages, which are not in `ready`, out of their groups.
function verbs.leave(ranks)
    local changed, found = {}, verbs.groups_of(ranks)
    for _, group in ipairs(found) do
        if group then
            changed[group] = true
        end
    end
    local were_held, all = remove('h', ranks, found)
    if were_held < all then  -- mostly all are
        remove('w', ranks, found)
    end
    open_all(changed)
end

-- What expand() has returned is held now, or it is a dead letter, which holds up nobody.
function verbs.take(held, dead)
    local wait, hold = {}, {}
    for _, rank in ipairs(held) do
        local group = group_of[rank]
        if group then
            wait[#wait + 1] = entry('w', group, rank)
            if keeps_places then
                hold[#hold + 1], hold[#hold + 2] = 0, entry('h', group, rank)
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

local forget = verbs.forget
function verbs.forget(ranks)
    verbs.leave(ranks)
    forget(ranks)
end
