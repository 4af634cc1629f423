-- Stage a chunk of messages: nobody sees them until it is published.
--#flags deny-oom
--#keys stages move_lock
--#args field ttl_ms:number rest...
-- field: writer, attempt and number of the chunk
-- ttl_ms: ms from now until all that waits expires
-- rest: ttl or -1, delay or -1, rest of the envelope; for each message
--#include move_lock

local values = {}
for place = rest, #ARGV do
    values[#values + 1] = ARGV[place]
end
redis.call('HSET', stages, field, cmsgpack.pack(values))
redis.call('PEXPIRE', stages, ttl_ms)
return 1
