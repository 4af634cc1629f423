-- Append dead letters to a queue, but those that it has had.
--
-- Returns {'missing'} when there is no queue and no epoch to make one with, else
-- {'posted', how many it had not, not yet listed}.
local queue       = KEYS[1]            -- hash: the queue itself
local messages    = KEYS[2]            -- zset: every message by rank
local bodies      = KEYS[3]            -- hash: rank -> envelope
local ready       = KEYS[4]            -- zset: claimable by rank
local delayed     = KEYS[5]            -- zset: delayed, by the end of the delay
local expiry      = KEYS[6]            -- zset: every message by expiry
local letters     = KEYS[7]            -- hash: token of a letter that came in
local letters_old = KEYS[8]            -- the same of the window before
local gate        = KEYS[9]            -- string: keeps everybody out while it is there
local unborn      = KEYS[10]           -- string: the epoch that the queue is to have
local due         = KEYS[11]           -- zset: queues of the slot by when one is due
local now         = tonumber(ARGV[1])  -- ms; 0: the time of Redis
local epoch       = ARGV[2]            -- of the queue to make, or ''
local window      = tonumber(ARGV[3])  -- ms to know the letters
-- ARGV[4...]: token, ttl, rest of the envelope; for each letter
--#include gate
--#include now
--#include envelope
--#include known

local size, sealed, default_ttl = 0, '1', 0  -- letters come as they are, whatever their size
--#include admit
local records, records_old = letters, letters_old
--#include recorded
--#include record
local values, named, skip = {}, {}, 0
local since, till
for at = 4, #ARGV, 3 do
    local kept, begun, over = recorded(ARGV[at])
    if not kept then
        since, till = begun, over
        named[#named + 1] = ARGV[at]
        named[#named + 1] = ''
        values[#values + 1] = ARGV[at + 1]
        values[#values + 1] = 0
        values[#values + 1] = ARGV[at + 2]
    end
end
if #named == 0 then
    return {'posted', 0, redis.call('HEXISTS', queue, 'unlisted')}
end
--#include append
soonest = math.min(soonest, record(named, since, till))
--#include due
return {'posted', count, unlisted}
