-- Read publications of a channel, and its position.
--
-- Returns {offset, epoch, entries}; entries are {id, {field, payload}} each.
local channel  = KEYS[1]  -- hash: epoch, offset, version of a channel
local history  = KEYS[2]  -- stream: publications, by offset
local epoch    = ARGV[1]  -- of a new channel
local meta_ttl = ARGV[2]  -- seconds to keep offset and epoch
local first    = ARGV[3]  -- id to begin at
local last     = ARGV[4]  -- id to end at
local limit    = ARGV[5]  -- publications; 0: the position only; -1: all
local reverse  = ARGV[6]  -- '1': backwards, from `last` to `first`
if redis.call('HSETNX', channel, 'epoch', epoch) == 1 then
    redis.call('DEL', history)  -- of an earlier epoch
end
redis.call('EXPIRE', channel, meta_ttl)
local known = redis.call('HMGET', channel, 'epoch', 'offset')
local entries = {}
if limit ~= '0' then
    local count = limit == '-1' and {} or {'COUNT', limit}
    if reverse == '1' then
        entries = redis.call('XREVRANGE', history, last, first, unpack(count))
    else
        entries = redis.call('XRANGE', history, first, last, unpack(count))
    end
end
return {tonumber(known[2] or 0), known[1], entries}
