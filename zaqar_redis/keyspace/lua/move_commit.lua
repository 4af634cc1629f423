-- From now on the queue lives where it moved to. Repeating it changes nothing.
--
-- Returns 1, or 0 when there is no such move.
local catalogue = KEYS[1]  -- hash: queue -> pool
local origins   = KEYS[2]  -- zset: queues that live in the pool it leaves
local queues    = KEYS[3]  -- zset: queues that live in the pool it moves to
local project   = KEYS[4]  -- hash: pool -> how many queues of the project
local moves     = KEYS[5]  -- hash: queue -> move
local news      = KEYS[6]  -- channel: what changed
local queue     = ARGV[1]  -- project and name
local token     = ARGV[2]  -- of the move
--#include catalogue

local stored = redis.call('HGET', moves, queue)
if not stored then
    return 0
end
local own, source, target, committed = string.match(stored, '^(%S+) (%S+) (%S+) (%d)$')
if own ~= token then
    return 0
end
if committed == '0' then
    remove_from_pool(source, origins)
    add_to_pool(target)
    redis.call('HSET', moves, queue, table.concat({token, source, target, 1}, ' '))
    redis.call('PUBLISH', news, 'queue ' .. queue)
end
return 1
