-- Subscribe a connection to a topic of the routing service.
--
-- Returns 1, or 0 when its node had no lease: then it has one now.
--#keys topic client node nodes
--#args now:number name id of ttl:number
-- name: of the topic
-- id: of the client
-- of: its node
-- ttl: ms, of the lease
--#include now

redis.call('SREM', topic, id)  -- a full Redis lets a script go on that has written
redis.call('SADD', topic, id)
redis.call('SADD', client, name)
redis.call('SADD', node, id)
return 1 - redis.call('ZADD', nodes, 'NX', now + ttl, of)
