-- Delete the messages that an internal claim holds: dead letters already moved.
--#keys queue @message move_lock
--#args dead_letter_claim rest...
-- rest: ranks
--#include move_lock forget hold

local ranks = {}
for place = rest, #ARGV do
    if holder_of(redis.call('HGET', holds, ARGV[place])) == dead_letter_claim then
        ranks[#ranks + 1] = ARGV[place]
    end
end
local count = forget(ranks)
if count > 0 then
    redis.call('HINCRBY', queue, 'dead_lettered', count)
end
return count
