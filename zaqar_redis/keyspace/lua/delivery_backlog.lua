-- Read what waits for a subscription, in order, some of it at least: {now, {id, record; of each}}.
--#keys pending pending_ids move_lock
--#args now:number id after limit:number
-- id: of the subscription
-- after: id of a delivery to go on behind, or ''
--#include move_lock now pending_records

local from = after == '' and '[' .. id .. ' ' or '(' .. after
local ids = redis.call('ZRANGEBYLEX', pending_ids, from, '(' .. id .. '!', 'LIMIT', 0, limit)
return {now, pending_records(ids)}
