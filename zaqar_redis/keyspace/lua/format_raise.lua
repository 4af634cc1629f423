-- Raise the format that the store is marked with; it is never lowered.
--#keys format
--#args version:number needs:number

local marked = redis.call('HMGET', format, 'version', 'needs')
redis.call('HDEL', format, '')  -- a full Redis lets a script go on that has written
redis.call('HSET', format, 'version', math.max(version, tonumber(marked[1] or 1)),
    'needs', math.max(needs, tonumber(marked[2] or 1)))
return 1
