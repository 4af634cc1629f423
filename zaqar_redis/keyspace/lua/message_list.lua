-- Read a page of messages in rank order, or backwards, without those the caller hides.
--
-- Returns {now, epoch, ms until something hidden may become visible or false if unknown, the
-- rank scanned last or false when the end was reached, then rank, envelope and hold of each};
-- of what no claim holds the hold is how often it was claimed, or false; {now, false} when there is
-- no such queue.
--#keys queue @message claims leases move_lock
--#args now:number after limit:number client also_held:flag also_later:flag
--#args backwards:flag
--#pubsub publish
-- after: rank to go on behind
-- client: whose messages to hide, or ''
--#include move_lock now envelope settle

local SCAN = 500  -- messages looked at in one call; the caller goes on behind them
local known = redis.call('HMGET', queue, 'epoch', 'order', 'bytes')
local epoch = known[1]
if not epoch then
    return {now, false}
end
ordering, counted = known[2], known[3]
local _, unsettled = settle()
if unsettled then
    return {now, epoch, false, after}  -- a page now might miss messages that are about to be ready
end
if also_later and redis.call('ZCARD', delayed) == 0 then
    also_later = '0'
end
local page = {now, epoch, false, false}
local function with_counts()
    if redis.call('HLEN', holds) == 0 then
        return page  -- nothing here was ever claimed
    end
    local free = {}
    for at = 5, #page, 3 do
        if not page[at + 2] then
            free[#free + 1] = page[at]
        end
    end
    local counts = #free > 0 and redis.call('HMGET', holds, unpack(free))
    local next_free = 0
    for at = 5, #page, 3 do
        if not page[at + 2] then
            next_free = next_free + 1
            page[at + 2] = counts[next_free] and ' ' .. string.sub(counts[next_free], 33)
        end
    end
    return page
end

local source = (also_held or also_later or ordering) and messages or ready
local found, scanned, step = 0, 0, limit
local range, far_end = 'ZRANGEBYSCORE', '+inf'
if backwards then
    range, far_end = 'ZREVRANGEBYSCORE', '-inf'
end
while found < limit and scanned < SCAN do
    step = math.min(step, SCAN)
    local ranks = redis.call(range, source, '(' .. after, far_end, 'LIMIT', 0, step)
    if #ranks == 0 then
        page[3] = found == 0 and next_visible_in()
        return with_counts()
    end
    local envelopes = redis.call('HMGET', bodies, unpack(ranks))
    for place, rank in ipairs(ranks) do
        local envelope = envelopes[place]
        after, scanned = rank, scanned + 1
        local shown = client == '' or client_of(envelope) ~= client
        local hold = false
        if shown and source == messages then
            hold = redis.call('ZSCORE', claimed, rank) and redis.call('HGET', holds, rank)
            -- What has expired by now is parked.
            shown = (also_held or not hold) and expiry_of(envelope) > now
                and (also_later or not redis.call('ZSCORE', delayed, rank))
        end
        if shown then
            local at = 3 * found + 5
            page[at], page[at + 1], page[at + 2] = rank, envelope, hold
            found = found + 1
            if found == limit then
                break
            end
        end
    end
    step = step * 2
end
page[4] = after
return with_counts()
