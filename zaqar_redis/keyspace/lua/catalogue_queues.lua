-- Read queues that live in a pool, in order.
local queues = KEYS[1]            -- zset: queues that live in the pool
local after  = ARGV[1]            -- queue to go on behind, or ''
local limit  = tonumber(ARGV[2])  -- queues at most

local from = after == '' and '-' or '(' .. after
return redis.call('ZRANGEBYLEX', queues, from, '+', 'LIMIT', 0, limit)
