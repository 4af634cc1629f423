-- Import entries for delivery.
--#keys queue deliveries delivery_index move_lock
--#args token rest...
-- rest: id, entry; of each
--#include target_lock

for place = rest, #ARGV, 2 do
    redis.call('XADD', deliveries, ARGV[place], 'posted', ARGV[place + 1])
end
redis.call('ZADD', delivery_index, 0, string.sub(queue, 5, -2))  -- notifiers look when it is here
return 1
