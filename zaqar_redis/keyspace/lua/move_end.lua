-- Delete the record of a move.
local moves = KEYS[1]  -- hash: queue -> move
local queue = ARGV[1]  -- project and name
local token = ARGV[2]  -- of the move

local stored = redis.call('HGET', moves, queue)
if stored and string.match(stored, '^%S+') == token then
    return redis.call('HDEL', moves, queue)
end
return 0
