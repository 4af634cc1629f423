-- List subscriptions that have deliveries which are not made; what waits for them is due, at the
-- latest now. Returns their ids, in order.
--#keys pending_ids pending_due move_lock
--#args now:number after limit:number
-- after: id to go on behind, or ''
--#include move_lock now

redis.call('ZREM', pending_due, '')  -- a full Redis lets a script go on that has written
local found, from = {}, after == '' and '-' or '(' .. after .. '!'
while #found < limit do
    local first = redis.call('ZRANGEBYLEX', pending_ids, from, '+', 'LIMIT', 0, 1)[1]
    if not first then
        break
    end
    local id = string.match(first, '^[^ ]*')
    redis.call('ZADD', pending_due, 'NX', now, id)
    found[#found + 1] = id
    from = '(' .. id .. '!'
end
return found
