-- Check that subscriptions, their subscribers, their order and their ends agree.
--
-- Returns {where to go on or '0', how many, {what, how often; of each finding}}.
--#keys subscriptions subscribers subscription_ids subscription_ends move_lock
--#args which cursor limit:number repair:flag
-- which: name of one of these keys
--#include move_lock subscriber findings

local repairs = repair

local function check_subscription(id, record)
    if not redis.call('ZSCORE', subscription_ends, id) then
        note('subscription')
        if repairs then
            redis.call('HDEL', subscriptions, id)
        end
        return
    end
    local subscriber = subscriber_of(record)
    if redis.call('HGET', subscribers, subscriber) ~= id
        or not redis.call('ZSCORE', subscription_ids, id) then
        note('subscriber')
        if repairs then
            redis.call('HSET', subscribers, subscriber, id)
            redis.call('ZADD', subscription_ids, 0, id)
        end
    end
end

local function check_subscriber(subscriber, id)
    local record = redis.call('HGET', subscriptions, id)
    if not record or subscriber_of(record) ~= subscriber then
        note('subscription')
        if repairs then
            redis.call('HDEL', subscribers, subscriber)
        end
    end
end

local function check_id(ids, id)
    if redis.call('HEXISTS', subscriptions, id) == 0 then
        note('subscription')
        if repairs then
            redis.call('ZREM', ids, id)
        end
    end
end

local found = ({subscriptions = subscriptions, subscribers = subscribers})[which]
local ids = ({subscription_ids = subscription_ids, subscription_ends = subscription_ends})[which]
local page = found and redis.call('HSCAN', found, cursor, 'COUNT', limit)
    or redis.call('ZSCAN', ids, cursor, 'COUNT', limit)
for at = 1, #page[2], 2 do
    if which == 'subscriptions' then
        check_subscription(page[2][at], page[2][at + 1])
    elseif which == 'subscribers' then
        check_subscriber(page[2][at], page[2][at + 1])
    else
        check_id(ids, page[2][at])
    end
end
return {page[1], #page[2] / 2, findings()}
