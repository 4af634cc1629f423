-- Give a queue that has no pool one; whoever comes second gets the first's.
--
-- Returns the pool it has, or false when the one proposed is gone or draining.
local catalogue = KEYS[1]  -- hash: queue -> pool
local pools     = KEYS[2]  -- hash: name -> pool
local queues    = KEYS[3]  -- zset: queues that live in the pool
local project   = KEYS[4]  -- hash: pool -> how many queues of the project
local deleted   = KEYS[5]  -- zset: deleted queues by time
local news      = KEYS[6]  -- channel: what changed
local queue     = ARGV[1]  -- project and name
local pool      = ARGV[2]  -- proposed
local home      = ARGV[3]  -- the pool that is always there
--#include pool
--#include catalogue

local there = redis.call('HGET', catalogue, queue)
if there then
    redis.call('ZREM', deleted, queue)
    return there
end
if pool ~= home then
    local stored = redis.call('HGET', pools, pool)
    if not stored then
        return false
    end
    local _, draining = parts_of(stored)
    if draining == '1' then
        return false
    end
end
settle_in(pool)
redis.call('PUBLISH', news, 'queue ' .. queue)  -- somebody may wait for it where it was not
return pool
