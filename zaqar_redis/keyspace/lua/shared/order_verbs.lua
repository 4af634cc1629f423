-- Verbs on messages by their ranks, which are texts. Those of groups are in order_groups.lua.
-- Records of the hash `order`, where there are groups: two digits of priority, a blank, and the
-- group.
local step, mode = string.match(ordering, '^(%S+) (%a+)')
local verbs = {}

-- The record of a new message by its tail (keyspace/envelope.py), nil: it needs none.
local function record_of(tail)
    if math.floor(string.byte(tail, 2) / 2) % 2 == 0 then
        return nil  -- no attributes
    end
    local at = 23 + string.byte(tail, 22)  -- behind the origin
    at = at + 11 + string.byte(tail, at + 1)  -- the map, behind the checksum and two lengths
    at = at + (string.byte(tail, at) == 222 and 3 or 1)
    local priority, group = 0, ''
    if string.sub(tail, at, at + 9) == '\169_priority' then
        priority = string.byte(tail, at + 10)
        at = at + 11
        if priority > 31 then
            return nil  -- an attribute of an older release, which had no such fields
        end
    end
    if string.sub(tail, at, at + 6) == '\166_group' then
        local kind, size = string.byte(tail, at + 7, at + 8)
        local from = kind == 217 and at + 9 or at + 8
        size = kind == 217 and size or kind - 160
        group = string.sub(tail, from, from + size - 1)
        local is_text = kind == 217 or kind > 160 and kind < 192
        if not is_text or string.find(group, '%c') then
            return nil
        end
    end
    if mode == 'none' then
        group = ''
    end
    if priority > 0 or group ~= '' then
        return string.format('%02d ', priority) .. group
    end
end

local function score_of(rank, record)
    local weight = record and tonumber(string.sub(record, 1, 2)) * step or 0
    return string.format('%.17g', rank - weight)
end

-- Note a new message. Returns its score in `ready`, or '': it waits in its group.
function verbs.add(rank, tail)
    return score_of(rank, record_of(tail))
end

-- Make messages claimable. Their priorities are read from themselves: entries of `order` would
-- cost each message more than this costs the few that come back.
function verbs.free(ranks)
    local TAIL = 30  -- where keyspace/envelope.py's tail begins
    local scores = {}
    for place, rank in ipairs(ranks) do
        local envelope = step ~= '0' and redis.call('HGET', bodies, rank)
        local record = envelope and record_of(string.sub(envelope, TAIL))
        scores[2 * place - 1], scores[2 * place] = score_of(rank, record), rank
    end
    redis.call('ZADD', ready, unpack(scores))
end

local function nothing() end
verbs.added, verbs.hold, verbs.leave, verbs.take = nothing, nothing, nothing, nothing
verbs.hold_to_move = nothing
verbs.defer = nothing  -- of what comes back later: an ordered group waits for it
