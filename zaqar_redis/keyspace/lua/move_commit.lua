-- From now on the queue lives where it moved to. Repeating it changes nothing.
--
-- Returns 1, or 0 when there is no such move, or it was withdrawn.
--#keys catalogue origins queues project moves news
--#args queue token
--#include catalogue

local stored = redis.call('HGET', moves, queue)
if not stored then
    return 0
end
local own, source, target, state = string.match(stored, '^(%S+) (%S+) (%S+) (%d)$')
if own ~= token or state == '2' then
    return 0
end
if state == '0' then
    remove_from_pool(source, origins)
    add_to_pool(target)
    redis.call('HSET', moves, queue, table.concat({token, source, target, 1}, ' '))
    redis.call('PUBLISH', news, 'queue ' .. queue)
end
return 1
