-- Note that a queue stands in its project's list.
local queue = KEYS[1]  -- hash: the queue itself

return redis.call('HDEL', queue, 'unlisted')
