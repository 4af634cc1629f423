-- Check that the queues listed for a pool are those that the catalogue has there.
--
-- Returns {queue to go on behind or '', {queue, where it is or false; of each that is not}}.
local catalogue = KEYS[1]            -- hash: queue -> pool
local queues    = KEYS[2]            -- zset: queues that live in the pool
local pool      = ARGV[1]            -- name
local after     = ARGV[2]            -- queue to go on behind, or ''
local limit     = tonumber(ARGV[3])  -- queues at most
local repair    = ARGV[4]            -- '1': repair it

local from = after == '' and '-' or '(' .. after
local page = redis.call('ZRANGEBYLEX', queues, from, '+', 'LIMIT', 0, limit)
local wrong = {}
for _, queue in ipairs(page) do
    local current_pool = redis.call('HGET', catalogue, queue)
    if current_pool ~= pool then
        wrong[#wrong + 1] = queue
        wrong[#wrong + 1] = current_pool
        if repair == '1' and current_pool then
            redis.call('ZREM', queues, queue)
        elseif repair == '1' then
            redis.call('HSET', catalogue, queue, pool)
        end
    end
end
return {page[#page] or '', wrong}
