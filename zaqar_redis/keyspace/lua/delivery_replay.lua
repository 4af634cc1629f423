-- Have deliveries to a subscription tried again that were given up, a page of them.
--
-- Returns {where to go on or '0', how many}.
--#keys queue subscriptions @deliveries delivery_index move_lock
--#args now:number id cursor limit:number
--#include move_lock now wake_notifier

if redis.call('HEXISTS', subscriptions, id) == 0 then
    return {'0', 0}
end
local page = redis.call('ZSCAN', pending_ends, cursor, 'MATCH', id .. ' *', 'COUNT', limit)
local count = 0
for place = 1, #page[2], 2 do
    local delivery = page[2][place]
    local record = redis.call('HGET', pending, delivery)
    local lives = tonumber(page[2][place + 1]) > now
    if lives and record and string.sub(record, 1, 1) == 'f' then
        redis.call('HSET', pending, delivery, 'r' .. string.sub(record, 2))
        redis.call('ZADD', pending_ids, 0, delivery)
        count = count + 1
    end
end
if count > 0 then
    redis.call('HINCRBY', delivery_states, id .. ' failed', -count)
    redis.call('ZADD', pending_due, now, id)
    wake_notifier(now)
end
return {page[1], count}
