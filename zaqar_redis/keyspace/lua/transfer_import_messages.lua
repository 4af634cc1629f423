-- Import messages before their present state is known.
--
-- A late writer, when the state of some is known, is refused: what it has is old.
local queue     = KEYS[1]  -- hash: the queue itself
local messages  = KEYS[2]  -- zset: every message by rank
local bodies    = KEYS[3]  -- hash: rank -> envelope
local expiry    = KEYS[4]  -- zset: every message by expiry
local move_lock = KEYS[5]  -- string: the move lock, while the queue moves
local token     = ARGV[1]  -- of the move
-- ARGV[2...]: rank and envelope of each
--#include hold_move_lock

local refused = check_move_lock('into')
if refused then
    return refused
end
if redis.call('EXISTS', queue, expiry) > 0 then
    return redis.error_reply('GATED into:' .. token)
end
local by_rank = {}
for place = 2, #ARGV, 2 do
    by_rank[place - 1], by_rank[place] = ARGV[place], ARGV[place]
end
redis.call('HSET', bodies, unpack(ARGV, 2))
redis.call('ZADD', messages, unpack(by_rank))
return 1
