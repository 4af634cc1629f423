-- Abort the import of a queue: delete what has come.
--
-- The queue may have been in this store before: for a while the move lock keeps out callers
-- whose route is old, who would create another one here.
--#keys @queue move_lock sweep_index delivery_index
--#args token ttl_ms:number
-- ttl_ms: ms until the move lock expires; 0: none is left

if redis.call('GET', move_lock) ~= 'into:' .. token then
    return 0
end
--#include delete_queue
redis.call('DEL', move_lock)
if ttl_ms > 0 then
    redis.call('SET', move_lock, 'closed:' .. token, 'PX', ttl_ms)
end
return 1
