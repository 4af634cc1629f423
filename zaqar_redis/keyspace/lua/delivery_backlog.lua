-- Read what waits for a subscription, in order, some of it at least: {now, {id, record; of each}}.
--#keys pending pending_ids move_lock
--#args now:number id after limit:number
-- id: of the subscription
-- after: id of a delivery to go on behind, or ''
--#include move_lock now

local BYTES = 1024 * 1024  -- in one answer: a millisecond or two of Redis' time
local from = after == '' and '[' .. id .. ' ' or '(' .. after
local ids = redis.call('ZRANGEBYLEX', pending_ids, from, '(' .. id .. '!', 'LIMIT', 0, limit)
local found, bytes = {}, 0
for place, each in ipairs(ids) do
    local record = redis.call('HGET', pending, each)
    found[2 * place - 1] = each
    found[2 * place] = record
    bytes = bytes + (record and #record or 0)
    if bytes >= BYTES then
        break
    end
end
return {now, found}
