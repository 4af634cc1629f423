-- Read a subscription: {now, expiry, subscription}, or {now} when it does not exist.
--#keys subscriptions subscription_ends move_lock
--#args now:number id
--#include move_lock now

local ends = tonumber(redis.call('ZSCORE', subscription_ends, id) or 0)
if ends <= now then
    return {now}
end
return {now, ends, redis.call('HGET', subscriptions, id)}
