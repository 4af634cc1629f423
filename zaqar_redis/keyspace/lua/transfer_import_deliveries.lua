-- Import entries for delivery.
--#keys queue deliveries delivery_index move_lock
--#args token rest...
-- rest: id, expiry and entry with a blank between; of each
--#include target_lock

for place = rest, #ARGV, 2 do
    local ends, posted = string.match(ARGV[place + 1], '^(%d+) ()')
    redis.call('XADD', deliveries, ARGV[place], ends, string.sub(ARGV[place + 1], posted))
end
redis.call('ZADD', delivery_index, 0, string.sub(queue, 5, -2))  -- notifiers look when it is here
return 1
