-- Check that pending deliveries, their order, when they are due and their ends agree.
--
-- Returns {where to go on or '0', how many, {what, how often; of each finding}}.
--#keys subscriptions pending pending_ids pending_due pending_ends delivery_lease move_lock
--#args which cursor limit:number repair:flag
-- which: name of one of these keys
--#include move_lock findings

-- Returns when a delivery expires, or nil: behind the letter and the head of an array come the
-- attempts, when it is due, status, error, and this. Lua cannot read the bytes behind it.
local function expiry_of_delivery(record)
    local read = {pcall(cmsgpack.unpack_limit, record, 5, 2)}
    return read[1] and tonumber(read[7])
end

local function fix(...)
    note('pending')
    if repair then
        redis.call(...)
    end
end

local function is_paused(subscription)
    local record = redis.call('HGET', subscriptions, subscription)
    return record and string.match(record, '^%d+ %d 1\n')
end

local function check_pending(id, record)
    local expires = expiry_of_delivery(record)
    if not expires then
        fix('HDEL', pending, id)  -- what the other keys have of it is removed with them
        return
    end
    local subscription = string.match(id, '^[^ ]*')
    local waits = string.sub(record, 1, 1) ~= 'f'
    local in_order = redis.call('ZSCORE', pending_ids, id)
    if not redis.call('ZSCORE', pending_ends, id) then
        fix('ZADD', pending_ends, string.format('%.0f', expires), id)
    end
    if waits and not in_order then
        fix('ZADD', pending_ids, 0, id)
    elseif in_order and not waits then
        fix('ZREM', pending_ids, id)
    end
    -- A notifier that has the queue may know more.
    if waits and redis.call('EXISTS', delivery_lease) == 0
        and not redis.call('ZSCORE', pending_due, id)
        and not redis.call('ZSCORE', pending_due, subscription)
        and not is_paused(subscription) then
        fix('ZADD', pending_due, 0, subscription)
    end
end

local listing = ({pending_ids = pending_ids, pending_due = pending_due,
    pending_ends = pending_ends})[which]
local page = listing and redis.call('ZSCAN', listing, cursor, 'COUNT', limit)
    or redis.call('HSCAN', pending, cursor, 'COUNT', limit)
for at = 1, #page[2], 2 do
    local id = page[2][at]
    if not listing then
        check_pending(id, page[2][at + 1])
    elseif string.find(id, ' ', 1, true) and redis.call('HEXISTS', pending, id) == 0 then
        fix('ZREM', listing, id)
    end
end
return {page[1], #page[2] / 2, findings()}
