-- Delete an access key.
--
-- Returns 1, or 0 when there is no such key.
--#keys access_key access_keys
--#args id

redis.call('DEL', access_key)
return redis.call('ZREM', access_keys, id)
