-- Check how many queues of a project a pool has: {noted, found}.
--#keys queues project
--#args pool id repair:flag
-- id: of the project, as the catalogue writes it

-- The character behind the slash that ends every id is a zero.
local found = redis.call('ZLEXCOUNT', queues, '[' .. id .. '/', '(' .. id .. '0')
local noted = tonumber(redis.call('HGET', project, pool) or 0)
if repair and found ~= noted then
    if found > 0 then
        redis.call('HSET', project, pool, found)
    else
        redis.call('HDEL', project, pool)
    end
end
return {noted, found}
