-- Whether a message is in a group; if so, what is wrong with its place there and the verb that
-- repairs it, or nil. `ready_at`: its score in `ready`, or false. `is_later`: it is delayed;
-- `is_held`: a client's claim has it.
local function group_fault(rank, ready_at, is_free, is_later, is_held)
    local group = verbs.groups_of({rank})[1]
    if not group then
        return false
    end
    local waits = redis.call('ZSCORE', groups, entry('w', group, rank))
    local holds_place = is_fair and redis.call('ZSCORE', groups, entry('h', group, rank))
    local is_first = waits and first_of(group, 1, 'w')[1] == entry('w', group, rank)
    if not is_free then
        if is_fair and is_later and is_first then
            return true  -- its group rests
        elseif waits or is_later and holds_place then
            return true, 'twice', is_later and verbs.defer or verbs.hold
        end
        local is_lost = is_fair and keeps_places and is_held and not holds_place
        return true, is_lost and 'hold' or nil, verbs.hold
    end
    -- Where the number that may be held has changed, one is in `ready` though too many are held, or
    -- is not though it may be: until a message of the group goes.
    local is_marked = is_fair and redis.call('ZSCORE', groups, '\1' .. group)
    local is_next = next_of(group) == rank
    if holds_place then
        return true, 'twice', verbs.free
    elseif not waits or is_next and not ready_at and not is_marked then
        return true, 'nowhere', verbs.free
    elseif is_fair and ready_at then
        local last = tonumber(redis.call('HGET', queue, 'turn') or 0)
        local is_due = tonumber(ready_at) >= last and tonumber(ready_at) <= last + 1
        return true, not (is_first and is_due) and 'order' or nil, verbs.free
    elseif ready_at and not is_next then
        return true, 'order', verbs.free
    end
    return true
end
