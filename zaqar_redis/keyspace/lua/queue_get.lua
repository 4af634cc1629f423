-- Read a queue: {metadata, created}; both false when it is missing.
--#keys queue move_lock
--#include move_lock

return redis.call('HMGET', queue, 'metadata', 'created')
