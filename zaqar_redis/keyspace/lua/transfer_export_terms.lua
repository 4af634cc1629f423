-- Read things that expire on their own: id, expiry, what belongs to it; of each.
local terms     = KEYS[1]            -- zset: ids by their expiry
local things    = KEYS[2]            -- hash: id -> what belongs to it
local move_lock = KEYS[3]            -- string: the move lock, while the queue moves
local token     = ARGV[1]            -- of the move
local lease     = tonumber(ARGV[2])  -- ms
local skip      = tonumber(ARGV[3])  -- how many to pass over
local limit     = tonumber(ARGV[4])  -- how many at most
--#include hold_move_lock

local refused = check_move_lock('out')
if refused then
    return refused
end
redis.call('PEXPIRE', move_lock, lease)
local page = {}
local flat = redis.call('ZRANGE', terms, skip, skip + limit - 1, 'WITHSCORES')
for at = 1, #flat, 2 do
    page[#page + 1] = flat[at]
    page[#page + 1] = flat[at + 1]
    page[#page + 1] = redis.call('HGET', things, flat[at]) or ''
end
return page
