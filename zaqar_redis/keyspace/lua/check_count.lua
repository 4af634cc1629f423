-- Check how many queues of a project a pool has: {noted, found}.
local queues  = KEYS[1]  -- zset: queues that live in the pool
local project = KEYS[2]  -- hash: pool -> how many queues of the project
local pool    = ARGV[1]  -- name
local id      = ARGV[2]  -- of the project, as the catalogue writes it
local repair  = ARGV[3]  -- '1': repair it

-- The character behind the slash that ends every id is a zero.
local found = redis.call('ZLEXCOUNT', queues, '[' .. id .. '/', '(' .. id .. '0')
local noted = tonumber(redis.call('HGET', project, pool) or 0)
if repair == '1' and found ~= noted then
    if found > 0 then
        redis.call('HSET', project, pool, found)
    else
        redis.call('HDEL', project, pool)
    end
end
return {noted, found}
