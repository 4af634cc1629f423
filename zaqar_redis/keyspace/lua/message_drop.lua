-- Delete the messages that an internal claim holds: they are in another queue now.
--#keys queue @message move_lock
--#args now:number holder dead:flag rest...
--#pubsub publish
-- dead: they are dead letters, and count as such
-- rest: ranks
--#include move_lock now order forget hold

local ranks = {}
for place = rest, #ARGV do
    if holder_of(redis.call('HGET', holds, ARGV[place])) == holder then
        ranks[#ranks + 1] = ARGV[place]
    end
end
local count = forget(ranks)
if opened > 0 then
    redis.call(publish, queue .. ':feed', opened)
end
if dead and count > 0 then
    redis.call('HINCRBY', queue, 'dead_lettered', count)
end
return count
