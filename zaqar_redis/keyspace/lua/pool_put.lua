-- Create or replace a pool, and perhaps its flavor, when there is none of that name.
--
-- Returns {'created'}, {'replaced'}, {'taken', the pool that has the URI}, {'many'} or
-- {'changed'}: the pools are not those that the caller knows.
--#keys pools flavors news version
--#args name flavor draining canonical record most:number known with_flavor:flag
-- flavor: or ''
-- draining: '1' or '0'
-- canonical: the one spelling of its URI
-- record: everything else
-- known: version of the pools that the caller knows, or ''
--#include pool

if known ~= '' and known ~= (redis.call('GET', version) or '0') then
    return {'changed'}
end
local before = redis.call('HGET', pools, name)
if not before and redis.call('HLEN', pools) >= most then
    return {'many'}
end
local all = redis.call('HGETALL', pools)
for at = 1, #all, 2 do
    local _, _, uri = parts_of(all[at + 1])
    if uri == canonical and all[at] ~= name then
        return {'taken', all[at]}
    end
end
redis.call('HDEL', pools, name)  -- a full Redis lets a script go on that has written
redis.call('HSET', pools, name, table.concat({flavor, draining, canonical, record}, '\n'))
if with_flavor and flavor ~= '' then
    redis.call('HSETNX', flavors, flavor, '{}')
end
redis.call('INCR', version)
redis.call('PUBLISH', news, 'pools')
return {before and 'replaced' or 'created'}
