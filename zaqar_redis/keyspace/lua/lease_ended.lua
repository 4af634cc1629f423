-- List the nodes whose lease has ended, `limit` at most.
--#keys nodes
--#args now:number limit:number
--#include now

return redis.call('ZRANGEBYSCORE', nodes, '-inf', now, 'LIMIT', 0, limit)
