-- Read publications of a channel, and its position.
--
-- Returns {offset, epoch, entries}; entries are {id, {field, payload}} each.
--#keys channel history
--#args epoch meta_ttl first last limit reverse:flag
-- epoch: of a new channel
-- limit: publications; 0: the position only; -1: all

if redis.call('EXPIRE', channel, meta_ttl) == 0 then
    redis.call('DEL', history)  -- of an earlier epoch
    redis.call('HSET', channel, 'epoch', epoch)
    redis.call('EXPIRE', channel, meta_ttl)
end
local known = redis.call('HMGET', channel, 'epoch', 'offset')
local entries = {}
if limit ~= '0' then
    local count = limit == '-1' and {} or {'COUNT', limit}
    if reverse then
        entries = redis.call('XREVRANGE', history, last, first, unpack(count))
    else
        entries = redis.call('XRANGE', history, first, last, unpack(count))
    end
end
return {tonumber(known[2] or 0), known[1], entries}
