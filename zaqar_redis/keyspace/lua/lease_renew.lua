-- Begin a node's lease, or renew it.
--
-- Returns 1, or 0 when it had ended or there was none.
--#keys nodes
--#args now:number id ttl:number
-- id: of the node
-- ttl: ms
--#include now

local lease = redis.call('ZSCORE', nodes, id)
redis.call('ZREM', nodes, id)  -- a full Redis lets a script go on that has written
redis.call('ZADD', nodes, now + ttl, id)
if lease and tonumber(lease) > now then
    return 1
end
return 0
