-- Remove a pool that nothing needs any more.
--
-- Returns {'deleted'}, {'used', how many queues it has} or {'last', the flavor that
-- would lose its last pool}.
--#keys pools flavors queues moves news version
--#args name
--#include pool queue_count

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

local stored = redis.call('HGET', pools, name)
if not stored then
    return {'deleted'}
end
local used = queue_count(name)
if used > 0 then
    return {'used', used}
end
local flavor = parts_of(stored)
if is_last(flavor, name) then
    return {'last', flavor}
end
redis.call('HDEL', pools, name)
redis.call('INCR', version)
redis.call('PUBLISH', news, 'pools')
return {'deleted'}
