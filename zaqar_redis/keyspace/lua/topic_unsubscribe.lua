-- Unsubscribe a connection from a topic of the routing service.
--
-- Redis deletes a set with its last member.  Returns 0 when the node is alive after all.
--#keys topic client node nodes
--#args now:number name id of ended
-- name: of the topic
-- id: of the client
-- of: its node
-- ended: 1: only if the lease of the node has ended
--#include now

if ended == '1' then
    local lease = redis.call('ZSCORE', nodes, of)
    if lease and tonumber(lease) > now then
        return 0
    end
end
redis.call('SREM', topic, id)
redis.call('SREM', client, name)
if redis.call('EXISTS', client) == 0 then
    redis.call('SREM', node, id)
end
return 1
