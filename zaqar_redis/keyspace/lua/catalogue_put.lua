-- Say where a queue lives, wherever it was.
--
-- Returns 1, or 0 when it is not where the caller thinks.
local catalogue = KEYS[1]  -- hash: queue -> pool
local queues    = KEYS[2]  -- zset: queues that live in the pool
local origins   = KEYS[3]  -- zset: queues that live in the pool it is in
local project   = KEYS[4]  -- hash: pool -> how many queues of the project
local deleted   = KEYS[5]  -- zset: deleted queues by time
local news      = KEYS[6]  -- channel: what changed
local unborn    = KEYS[7]  -- string: the epoch that the queue is to have
local queue     = ARGV[1]  -- project and name
local pool      = ARGV[2]  -- name
local origin    = ARGV[3]  -- pool it is in, or ''
--#include catalogue

if (redis.call('HGET', catalogue, queue) or '') ~= origin then
    return 0
end
redis.call('ZREM', deleted, queue)
redis.call('DEL', unborn)
if origin == pool then
    return 1
end
if origin ~= '' then
    move_out(origin, origins)
end
settle_in(pool)
redis.call('PUBLISH', news, 'queue ' .. queue)
return 1
