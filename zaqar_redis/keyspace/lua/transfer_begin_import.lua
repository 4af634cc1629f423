-- Begin to import a queue: take the move lock, and delete what an earlier attempt left.
--
-- Returns 1, or 0 when the queue exists in this store already.
--#flags deny-oom
--#keys @queue move_lock sweep_index delivery_index
--#args token

local kind = string.match(redis.call('GET', move_lock) or '', '^%a*')
if kind == 'out' or kind == 'gone' or (kind ~= 'into' and redis.call('EXISTS', queue) == 1) then
    return 0
end
--#include delete_queue
redis.call('SET', move_lock, 'into:' .. token)
return 1
