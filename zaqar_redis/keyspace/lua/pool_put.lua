-- Create or replace a pool, and perhaps its flavor, when there is none of that name.
--
-- Returns {'created'}, {'replaced'}, {'taken', the pool that has the URI}, {'many'} or
-- {'changed'}: the pools are not those that the caller knows.
local pools       = KEYS[1]            -- hash: name -> pool
local flavors     = KEYS[2]            -- hash: name -> what it can do, as JSON
local news        = KEYS[3]            -- channel: what changed
local version     = KEYS[4]            -- string: how often pools have changed
local name        = ARGV[1]            -- of the pool
local flavor      = ARGV[2]            -- or ''
local draining    = ARGV[3]            -- '1' or '0'
local canonical   = ARGV[4]            -- the one spelling of its URI
local record      = ARGV[5]            -- everything else
local most        = tonumber(ARGV[6])  -- pools there may be
local known       = ARGV[7]            -- version of the pools that the caller knows, or ''
local with_flavor = ARGV[8]            -- '1': create the flavor
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
redis.call('HSET', pools, name, table.concat({flavor, draining, canonical, record}, '\n'))
if with_flavor == '1' and flavor ~= '' then
    redis.call('HSETNX', flavors, flavor, '{}')
end
redis.call('INCR', version)
redis.call('PUBLISH', news, 'pools')
return {before and 'replaced' or 'created'}
