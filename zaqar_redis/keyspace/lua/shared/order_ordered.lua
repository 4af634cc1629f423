-- The verbs of a queue whose groups are ordered, beside those of order_groups.lua.
function next_of(group)
    local first = first_of(group, 1)[1]
    local waits = first and string.sub(first, #group + 2, #group + 2) == 'w'
    return waits and rank_in(first, group) or nil
end

function close(group)
    local rank = next_of(group)
    if rank then
        redis.call('ZREM', ready, rank)
    end
end

function open(group)
    local rank = next_of(group)
    if rank then
        local record = step ~= '0' and redis.call('HGET', order, rank)
        opened = opened + redis.call('ZADD', ready, score_of(rank, record), rank)
    end
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
            redis.call('ZADD', groups, '0', entry('w', group, rank))
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

-- What can be taken of the first `size` messages in `ready`: behind each others of its group, as
-- long as there is room.
function verbs.expand(size, room)
    local page, ranks = redis.call('ZRANGE', ready, 0, size - 1), {}
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
            redis.call('ZADD', groups, '0', entry('h', group, rank))
        end
    end
end

verbs.hold_to_move = verbs.hold

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
