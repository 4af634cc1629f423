-- Remove a flavor; its pools stay, without one.
--#keys pools flavors news version
--#args name
--#include pool

if redis.call('HDEL', flavors, name) == 0 then
    return 0
end
local all = redis.call('HGETALL', pools)
for at = 1, #all, 2 do
    local flavor, draining, canonical, record = parts_of(all[at + 1])
    if flavor == name then
        redis.call('HSET', pools, all[at], table.concat({'', draining, canonical, record}, '\n'))
    end
end
redis.call('INCR', version)
redis.call('PUBLISH', news, 'pools')
return 1
