-- Set a field of an access key.
--
-- Returns 1, or 0 when there is no such key.
--#keys access_key
--#args field value

if redis.call('EXISTS', access_key) == 0 then
    return 0
end
redis.call('HDEL', access_key, field)  -- a full Redis lets a script go on that has written
redis.call('HSET', access_key, field, value)
return 1
