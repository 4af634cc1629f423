-- Read a queue: {metadata, created}; both false when it is missing.
local queue = KEYS[1]  -- hash: the queue itself

return redis.call('HMGET', queue, 'metadata', 'created')
