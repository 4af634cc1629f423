-- Records of the hash `order`: two digits of priority, a blank, and the group.
local step, mode = string.match(ordering, '^(%d+) (%a+)$')
local is_grouped = mode == 'ordered'

-- The record of a message, nil: it has none. `base`: bytes before its tail (keyspace/envelope.py).
local function parsed(text, base)
    if math.floor(string.byte(text, base + 2) / 2) % 2 == 0 then
        return nil  -- no attributes
    end
    local at = base + 23 + string.byte(text, base + 22)  -- behind the origin
    at = at + 11 + string.byte(text, at + 1)  -- the map, behind the checksum and two lengths
    at = at + (string.byte(text, at) == 222 and 3 or 1)
    local priority, group = 0, ''
    if string.sub(text, at, at + 9) == '\169_priority' then
        priority = string.byte(text, at + 10)
        at = at + 11
    end
    if string.sub(text, at, at + 6) == '\166_group' then
        local size = string.byte(text, at + 7)
        local from = size == 217 and at + 9 or at + 8
        size = size == 217 and string.byte(text, at + 8) or size - 160
        group = string.sub(text, from, from + size - 1)
    end
    if priority > 0 or is_grouped and group ~= '' then
        return string.format('%02d ', priority) .. group
    end
end

local function weight_of(record)
    return record and tonumber(string.sub(record, 1, 2)) * step or 0
end

local function group_of(record)
    local group = is_grouped and record and string.sub(record, 4)
    return group and group ~= '' and group
end

local function entry(state, group, rank)
    return state .. group .. '\0' .. string.format('%016.0f', rank)
end

-- The first ranks of a group that are in a state.
local function first_of(state, group, limit)
    local name = state .. group
    local found = redis.call('ZRANGEBYLEX', groups, '[' .. name .. '\0', '(' .. name .. '\1',
        'LIMIT', 0, limit)
    for place, each in ipairs(found) do
        found[place] = string.format('%.0f', string.sub(each, -16))
    end
    return found
end

-- Take what may be claimed of a group out of `ready`, before the group changes.
local function close(group)
    local first = first_of('w', group, 1)[1]
    if first then
        redis.call('ZREM', ready, first)
    end
end

-- Make the first message of a group claimable, unless another is held.
local function open(group)
    local first = not first_of('h', group, 1)[1] and first_of('w', group, 1)[1]
    if first then
        local score = first - weight_of(redis.call('HGET', order, first))
        opened = opened + redis.call('ZADD', ready, string.format('%.0f', score), first)
    end
end
