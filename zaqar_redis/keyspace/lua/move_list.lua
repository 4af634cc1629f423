-- Read every move on record: queue, move; of each.
local moves = KEYS[1]  -- hash: queue -> move

return redis.call('HGETALL', moves)
