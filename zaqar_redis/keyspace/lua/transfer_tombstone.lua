-- Delete a queue that has moved to another store; for a while its move lock says so.
--
-- Returns 1 if it was sealed by this move, else 0.
--#keys @queue move_lock sweep_index delivery_index
--#args token ttl_ms:number

if redis.call('GET', move_lock) ~= 'gone:' .. token then
    return 0
end
--#include delete_queue
redis.call('SET', move_lock, 'closed:' .. token, 'PX', ttl_ms)
return 1
