-- Read what waits for a subscription, in order: {now, {id, record; of each}}.
--#keys pending pending_ids move_lock
--#args now:number id after limit:number
-- id: of the subscription
-- after: id of a delivery to go on behind, or ''
--#include move_lock now

local from = after == '' and '[' .. id .. ' ' or '(' .. after
local ids = redis.call('ZRANGEBYLEX', pending_ids, from, '(' .. id .. '!', 'LIMIT', 0, limit)
local found = {}
for place, each in ipairs(ids) do
    found[2 * place - 1] = each
    found[2 * place] = redis.call('HGET', pending, each)
end
return {now, found}
