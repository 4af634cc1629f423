-- Give a queue that has no pool one; whoever comes second gets the first's.
--
-- Returns the pool it has, or false when pools have changed since one was proposed, or the
-- epoch that it is to have is another one than the pool was told.
local catalogue = KEYS[1]  -- hash: queue -> pool
local queues    = KEYS[2]  -- zset: queues that live in the pool
local project   = KEYS[3]  -- hash: pool -> how many queues of the project
local deleted   = KEYS[4]  -- zset: deleted queues by time
local news      = KEYS[5]  -- channel: what changed
local version   = KEYS[6]  -- string: how often pools have changed
local unborn    = KEYS[7]  -- string: the epoch that the queue is to have
local queue     = ARGV[1]  -- project and name
local pool      = ARGV[2]  -- proposed
local known     = ARGV[3]  -- version of the pools that it was chosen from
local told      = ARGV[4]  -- the epoch that the pool was told, or ''; '*': it has one already
--#include catalogue

local there = redis.call('HGET', catalogue, queue)
if there then
    redis.call('ZREM', deleted, queue)
    return there
end
if (redis.call('GET', version) or '0') ~= known
    or (told ~= '*' and (redis.call('GET', unborn) or '') ~= told) then
    return false
end
settle_in(pool)
redis.call('DEL', unborn)
redis.call('PUBLISH', news, 'queue ' .. queue)  -- somebody may wait for it where it was not
return pool
