-- Where a queue lives: {pool or false, its move or false, when it was deleted or false, its
-- reserved epoch or false}.
--#keys catalogue moves deleted reserved_epoch
--#args queue

return {redis.call('HGET', catalogue, queue), redis.call('HGET', moves, queue),
    redis.call('ZSCORE', deleted, queue), redis.call('GET', reserved_epoch)}
