-- Note that an access key is used now, unless that was noted just before.
--#keys access_key
--#args now:number interval:number
-- interval: ms between two notes
--#include now

local used = redis.call('HGET', access_key, 'used')
if used and now - used >= interval then
    redis.call('HDEL', access_key, 'used')  -- a full Redis lets a script go on that has written
    redis.call('HSET', access_key, 'used', now)
end
