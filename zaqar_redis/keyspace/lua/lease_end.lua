-- Remove the lease of a node that has no subscriptions any more.
--#keys node nodes
--#args now:number id ended
-- id: of the node
-- ended: 1: only if the lease has ended
--#include now

local lease = redis.call('ZSCORE', nodes, id)
if not lease or redis.call('EXISTS', node) == 1 or (ended == '1' and tonumber(lease) > now) then
    return 0
end
return redis.call('ZREM', nodes, id)
