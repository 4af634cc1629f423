-- Read subscriptions in order of their ids: {now, id, expiry, subscription; of each}.
--#keys subscriptions subscription_ids subscription_ends move_lock
--#args now:number after limit:number
-- after: id to go on behind, or ''
--#include move_lock now

local found = {now}
while limit > 0 do
    local from = after == '' and '-' or '(' .. after
    local ids = redis.call('ZRANGEBYLEX', subscription_ids, from, '+', 'LIMIT', 0, limit)
    for _, id in ipairs(ids) do
        after = id
        local ends = tonumber(redis.call('ZSCORE', subscription_ends, id))
        if ends > now then
            found[#found + 1] = id
            found[#found + 1] = ends
            found[#found + 1] = redis.call('HGET', subscriptions, id)
            limit = limit - 1
        end
    end
    if #ids == 0 then
        break
    end
end
return found
