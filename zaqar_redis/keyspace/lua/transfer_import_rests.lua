-- Import until when groups rest.
--#keys groups move_lock
--#args token rest...
-- rest: entries of `groups`, by time
--#include target_lock

for place = rest, #ARGV do
    local noted = ARGV[place]
    local of_group = string.sub(noted, 19) .. '\0r' .. string.sub(noted, 2, 18)
    redis.call('ZADD', groups, 0, noted, 0, of_group)
end
return 1
