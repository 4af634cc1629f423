-- Import things that expire on their own.
--#keys terms things move_lock
--#args token rest...
-- rest: id, expiry, what belongs to it; of each
--#include target_lock

for place = rest, #ARGV, 3 do
    redis.call('ZADD', terms, ARGV[place + 1], ARGV[place])
    redis.call('HSET', things, ARGV[place], ARGV[place + 2])
end
return 1
