-- Import messages before their present state is known.
--
-- A late writer, when the state of some is known, is refused: what it has is old.
--#flags deny-oom
--#keys queue messages bodies expiry move_lock
--#args token rest...
-- rest: rank and envelope of each
--#include target_lock

if redis.call('EXISTS', queue, expiry) > 0 then
    return redis.error_reply('GATED into:' .. token)
end
local by_rank = {}
for place = rest, #ARGV, 2 do
    by_rank[place - 1], by_rank[place] = ARGV[place], ARGV[place]
end
redis.call('HSET', bodies, unpack(ARGV, rest))
redis.call('ZADD', messages, unpack(by_rank))
return 1
