-- Read messages by rank as they are, claimed or not, and the last rank of the queue.
--
-- Returns {now, epoch, last rank given, then rank and envelope of each}. It stops at a
-- megabyte; what has expired is left out. When the queue does not exist, the epoch is its
-- reserved one, so that a watcher from before its first message recognises it. Without an
-- `epoch` to reserve it is empty.
--#keys queue messages bodies move_lock reserved_epoch
--#args now:number first last limit:number reverse:flag epoch kept
-- epoch: to reserve, or ''
-- kept: seconds to keep it, from the last read on
--#include move_lock now envelope

local BYTES = 1048576  -- of envelopes in one answer: the next page goes on behind them
local known = redis.call('HMGET', queue, 'epoch', 'rank')
if not known[1] and epoch == '' then
    return {now, '', '0'}
elseif not known[1] then
    if redis.call('EXPIRE', reserved_epoch, kept) == 0 then
        redis.call('SET', reserved_epoch, epoch, 'EX', kept)
    end
    return {now, redis.call('GET', reserved_epoch), '0'}
end
local page = {now, known[1], known[2] or '0'}
local ranks = {}
if limit > 0 then
    if reverse then
        ranks = redis.call('ZREVRANGEBYSCORE', messages, last, first, 'LIMIT', 0, limit)
    else
        ranks = redis.call('ZRANGEBYSCORE', messages, first, last, 'LIMIT', 0, limit)
    end
end
local size = 0
for _, rank in ipairs(ranks) do
    local envelope = redis.call('HGET', bodies, rank)
    size = size + #envelope
    if expiry_of(envelope) > now then
        page[#page + 1] = rank
        page[#page + 1] = envelope
    end
    if size >= BYTES then
        break
    end
end
return page
