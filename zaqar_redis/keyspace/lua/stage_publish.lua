-- Append a staged chunk to the queue; it waits no longer.
--
-- Returns {'gone'} when no such chunk waits, {'missing'} when there is no queue and no
-- epoch to make one with, {'large', limit}, {'plain'} when the queue wants bodies
-- encrypted, or {'posted', not yet listed}.
local queue          = KEYS[1]            -- hash: the queue itself
local messages       = KEYS[2]            -- zset: every message by rank
local bodies         = KEYS[3]            -- hash: rank -> envelope
local ready          = KEYS[4]            -- zset: claimable by rank
local delayed        = KEYS[5]            -- zset: delayed, by the end of the delay
local expiry         = KEYS[6]            -- zset: every message by expiry
local stages         = KEYS[7]            -- hash: chunks that wait, and what is being published
local move_lock      = KEYS[8]            -- string: the move lock, while the queue moves
local reserved_epoch = KEYS[9]            -- string: the reserved epoch
local sweep_index    = KEYS[10]           -- zset: queues of the slot by their next sweep
local now            = tonumber(ARGV[1])  -- ms; 0: the time of Redis
local epoch          = ARGV[2]            -- of a queue to create, or ''
local size           = tonumber(ARGV[3])  -- bytes of the chunk
local default_ttl    = tonumber(ARGV[4])  -- seconds
local encrypted      = ARGV[5]            -- '1': the bodies are encrypted
local field          = ARGV[6]            -- writer, attempt and number of the chunk
--#include move_lock
--#include now
--#include envelope
--#include queue_fields

local packed = redis.call('HGET', stages, field)
if not packed then
    return {'gone'}
end
--#include admit
local values, skip = cmsgpack.unpack(packed), 0
--#include append
--#include note_sweep
redis.call('HDEL', stages, field)
return {'posted', unlisted}
