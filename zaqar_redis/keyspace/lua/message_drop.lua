-- Delete the messages that an internal claim holds: they are in another queue now.
--#keys queue @message move_lock
--#args holder dead:flag rest...
-- dead: they are dead letters, and count as such
-- rest: ranks
--#include move_lock forget hold

local ranks = {}
for place = rest, #ARGV do
    if holder_of(redis.call('HGET', holds, ARGV[place])) == holder then
        ranks[#ranks + 1] = ARGV[place]
    end
end
local count = forget(ranks)
if dead and count > 0 then
    redis.call('HINCRBY', queue, 'dead_lettered', count)
end
return count
