-- Create a flavor, or give it other pools, also those of other flavors.
--
-- Returns {'created'}, {'replaced'}, {'missing', a pool that does not exist} or {'many'}.
--#keys pools flavors news version
--#args name most:number rest...
-- rest: the names of its pools
--#include pool

local known = redis.call('HEXISTS', flavors, name) == 1
if not known and redis.call('HLEN', flavors) >= most then
    return {'many'}
end
local wanted = {}
for place = rest, #ARGV do
    wanted[ARGV[place]] = true
    if redis.call('HEXISTS', pools, ARGV[place]) == 0 then
        return {'missing', ARGV[place]}
    end
end
redis.call('HDEL', pools, '')  -- a full Redis lets a script go on that has written
local all = redis.call('HGETALL', pools)
for at = 1, #all, 2 do
    local flavor, draining, canonical, record = parts_of(all[at + 1])
    local own = wanted[all[at]] and name or flavor ~= name and flavor or ''
    if own ~= flavor then
        redis.call('HSET', pools, all[at], table.concat({own, draining, canonical, record}, '\n'))
    end
end
redis.call('HSETNX', flavors, name, '{}')
redis.call('INCR', version)
redis.call('PUBLISH', news, 'pools')
return {known and 'replaced' or 'created'}
