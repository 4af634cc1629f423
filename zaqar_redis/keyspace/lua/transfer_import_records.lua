-- Import records of one generation.
--#keys records move_lock
--#args token rest...
-- rest: name and record of each
--#include target_lock

for place = rest, #ARGV, 2 do
    redis.call('HSET', records, ARGV[place], ARGV[place + 1])
end
return 1
