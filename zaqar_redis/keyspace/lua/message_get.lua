-- Read messages by rank, claimed and delayed ones too.
--
-- Returns {now, epoch or false, then rank, envelope and hold (or false) of each
-- that exists, in the order of the request}.
local queue     = KEYS[1]            -- hash: the queue itself
local bodies    = KEYS[2]            -- hash: rank -> envelope
local claimed   = KEYS[3]            -- zset: held, by the end of the hold
local holds     = KEYS[4]            -- hash: rank -> last claim and count
local move_lock = KEYS[5]            -- string: the move lock, while the queue moves
local now       = tonumber(ARGV[1])  -- ms; 0: the time of Redis
-- ARGV[2...]: epoch and rank of each
--#include move_lock
--#include now
--#include envelope

local page = {now, redis.call('HGET', queue, 'epoch')}
for place = 2, #ARGV, 2 do
    local rank = ARGV[place + 1]
    -- An id of another queue, or of an earlier epoch of this one, is skipped.
    local envelope = ARGV[place] == page[2] and redis.call('HGET', bodies, rank)
    if envelope and expiry_of(envelope) > now then
        local until_ = tonumber(redis.call('ZSCORE', claimed, rank) or 0)
        page[#page + 1] = rank
        page[#page + 1] = envelope
        page[#page + 1] = until_ > now and redis.call('HGET', holds, rank)
    end
end
return page
