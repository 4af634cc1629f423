-- Whether a message is in an ordered group; if so, what is wrong with its place there and the verb
-- that repairs it, or nil. `ready_at`: its score in `ready`, or false.
local function group_fault(rank, ready_at, is_free)
    local group = verbs.groups_of({rank})[1]
    if not group then
        return false
    end
    local waits = redis.call('ZSCORE', groups, entry('w', group, rank))
    if waits and not is_free then
        return true, 'twice', verbs.hold
    elseif not is_free then
        return true
    end
    local is_next = next_of(group) == rank
    if not waits or is_next and not ready_at then
        return true, 'nowhere', verbs.free
    elseif ready_at and not is_next then
        return true, 'order', verbs.free
    end
    return true
end
