-- Withdraw a move: from now on it cannot be committed. Repeating it changes nothing.
--
-- Returns 1, or 0 when it is committed.
--#keys moves
--#args queue token

local stored = redis.call('HGET', moves, queue)
if not stored then
    return 1
end
local own, source, target, state = string.match(stored, '^(%S+) (%S+) (%S+) (%d)$')
if own ~= token then
    return 1
end
if state == '1' then
    return 0
end
redis.call('HDEL', moves, queue)  -- a full Redis lets a script go on that has written
redis.call('HSET', moves, queue, table.concat({token, source, target, 2}, ' '))
return 1
