-- Check that the queues listed for a pool are those that the catalogue has there.
--
-- Returns {queue to go on behind or '', {queue, where it is or false; of each that is not}}.
--#keys catalogue queues
--#args pool after limit:number repair:flag
-- after: queue to go on behind, or ''

local from = after == '' and '-' or '(' .. after
local page = redis.call('ZRANGEBYLEX', queues, from, '+', 'LIMIT', 0, limit)
local wrong = {}
for _, queue in ipairs(page) do
    local current_pool = redis.call('HGET', catalogue, queue)
    if current_pool ~= pool then
        wrong[#wrong + 1] = queue
        wrong[#wrong + 1] = current_pool
        if repair and current_pool then
            redis.call('ZREM', queues, queue)
        elseif repair then
            redis.call('HSET', catalogue, queue, pool)
        end
    end
end
return {page[#page] or '', wrong}
