-- Delete the record of a move.
--#keys moves
--#args queue token

local stored = redis.call('HGET', moves, queue)
if stored and string.match(stored, '^%S+') == token then
    return redis.call('HDEL', moves, queue)
end
return 0
