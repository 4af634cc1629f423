-- Read messages by rank, claimed and delayed ones too.
--
-- Returns {now, epoch or false, then rank, envelope and hold of each that exists, in the order of
-- the request}; of what no claim holds the hold is how often it was claimed, or false.
--#keys queue bodies claimed holds move_lock
--#args now:number rest...
-- rest: epoch and rank of each
--#include move_lock now envelope

local page = {now, redis.call('HGET', queue, 'epoch')}
for place = rest, #ARGV, 2 do
    local rank = ARGV[place + 1]
    -- An id of another queue, or of an earlier epoch of this one, is skipped.
    local envelope = ARGV[place] == page[2] and redis.call('HGET', bodies, rank)
    if envelope and expiry_of(envelope) > now then
        local until_ = tonumber(redis.call('ZSCORE', claimed, rank) or 0)
        page[#page + 1] = rank
        page[#page + 1] = envelope
        local hold = redis.call('HGET', holds, rank)
        page[#page + 1] = until_ > now and hold or hold and ' ' .. string.sub(hold, 33)
    end
end
return page
