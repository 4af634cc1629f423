-- A pool at rest: flavor, '1' when it is draining, canonical URI, record; by lines.
local function parts_of(stored)
    return string.match(stored, '^([^\n]*)\n([^\n]*)\n([^\n]*)\n(.*)$')
end

-- Whether a flavor would have no pool left without this one.
local function is_last(flavor, name)
    if flavor == '' or redis.call('HEXISTS', flavors, flavor) == 0 then
        return false
    end
    local all = redis.call('HGETALL', pools)
    for at = 1, #all, 2 do
        if all[at] ~= name and parts_of(all[at + 1]) == flavor then
            return false
        end
    end
    return true
end
