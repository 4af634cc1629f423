-- Stage a chunk of messages: nobody sees them until it is published.
local stages    = KEYS[1]            -- hash: chunks that wait, and what is being published
local move_lock = KEYS[2]            -- string: the move lock, while the queue moves
local field     = ARGV[1]            -- writer, attempt and number of the chunk
local ttl_ms    = tonumber(ARGV[2])  -- ms from now until all that waits expires
-- ARGV[3...]: ttl or -1, delay or -1, rest of the envelope; for each message
--#include move_lock

local values = {}
for place = 3, #ARGV do
    values[place - 2] = ARGV[place]
end
redis.call('HSET', stages, field, cmsgpack.pack(values))
redis.call('PEXPIRE', stages, ttl_ms)
return 1
