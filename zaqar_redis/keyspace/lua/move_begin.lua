-- Record that a queue is to move.
--
-- Returns {'begun'}, {'earlier', the move on record}, {'elsewhere', where the queue
-- lives} or {'target'} when that pool does not exist or is draining.
local catalogue    = KEYS[1]  -- hash: queue -> pool
local pools        = KEYS[2]  -- hash: name -> pool
local queues       = KEYS[3]  -- zset: queues that live in the pool it is in
local project      = KEYS[4]  -- hash: pool -> how many queues of the project
local moves        = KEYS[5]  -- hash: queue -> move
local queue        = ARGV[1]  -- project and name
local token        = ARGV[2]  -- of this move
local source       = ARGV[3]  -- pool
local target       = ARGV[4]  -- pool
local default_pool = ARGV[5]  -- the pool that always exists
--#include pool
--#include catalogue

local earlier = redis.call('HGET', moves, queue)
if earlier then
    return {'earlier', earlier}
end
local current_pool = redis.call('HGET', catalogue, queue)
if (current_pool or default_pool) ~= source then
    return {'elsewhere', current_pool or default_pool}
end
local stored = target ~= default_pool and redis.call('HGET', pools, target)
if target ~= default_pool and (not stored or select(2, parts_of(stored)) == '1') then
    return {'target'}
end
if not current_pool then  -- older than the catalogue
    add_to_pool(source)
end
redis.call('HSET', moves, queue, table.concat({token, source, target, 0}, ' '))
return {'begun'}
