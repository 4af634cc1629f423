-- Import the fields of the queue itself; it is yet to be listed in this store.
local queue       = KEYS[1]  -- hash: the queue itself
local move_lock   = KEYS[2]  -- string: the move lock, while the queue moves
local sweep_index = KEYS[3]  -- zset: queues of the slot by their next sweep
local token       = ARGV[1]  -- of the move
-- ARGV[2...]: name and value of each
--#include hold_move_lock

local refused = check_move_lock('into')
if refused then
    return refused
end
redis.call('HSET', queue, unpack(ARGV, 2))
redis.call('HSET', queue, 'unlisted', 1)
redis.call('HDEL', queue, 'due')  -- noted in the index of the source
local soonest, noted = 0, false  -- the sweeper will find out its next time
--#include note_sweep
return 1
