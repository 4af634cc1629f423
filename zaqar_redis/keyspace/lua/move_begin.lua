-- Record that a queue is to move.
--
-- Returns {'begun'}, {'earlier', the move on record}, {'elsewhere', where the queue
-- lives} or {'target'} when that pool does not exist or is draining.
--#keys catalogue pools queues project moves
--#args queue token source target default_pool
--#include pool catalogue

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
redis.call('HDEL', moves, queue)  -- a full Redis lets a script go on that has written
if not current_pool then  -- older than the catalogue
    add_to_pool(source)
end
redis.call('HSET', moves, queue, table.concat({token, source, target, 0}, ' '))
return {'begun'}
