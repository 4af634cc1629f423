-- Import the fields of the queue itself; it is yet to be listed in this store.
--#keys queue move_lock sweep_index
--#args token rest...
-- rest: name and value of each
--#include target_lock

redis.call('HSET', queue, unpack(ARGV, rest))
redis.call('HSET', queue, 'unlisted', 1)
redis.call('HDEL', queue, 'due')  -- noted in the index of the source
local soonest, noted = 0, false  -- the sweeper will find out its next time
--#include note_sweep
return 1
