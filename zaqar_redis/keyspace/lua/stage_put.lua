-- Put a chunk of messages aside: nobody sees them until it is published.
local stages = KEYS[1]            -- hash: chunks that wait, and what is being published
local gate   = KEYS[2]            -- string: keeps everybody out while it is there
local field  = ARGV[1]            -- writer, attempt and number of the chunk
local life   = tonumber(ARGV[2])  -- ms from now until all that waits is forgotten
-- ARGV[3...]: ttl or -1, delay or -1, rest of the envelope; for each message
--#include gate

local values = {}
for place = 3, #ARGV do
    values[place - 2] = ARGV[place]
end
redis.call('HSET', stages, field, cmsgpack.pack(values))
redis.call('PEXPIRE', stages, life)
return 1
