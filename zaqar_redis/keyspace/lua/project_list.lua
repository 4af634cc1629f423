-- Read names of a project's queues in order.
local queues = KEYS[1]            -- zset, score 0: queue names
local after  = ARGV[1]            -- name to go on behind, or ''
local limit  = tonumber(ARGV[2])  -- names at most

local from = after == '' and '-' or '(' .. after
return redis.call('ZRANGEBYLEX', queues, from, '+', 'LIMIT', 0, limit)
