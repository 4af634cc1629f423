-- Check that everything that expires has an expiry time, and every expiry time its thing.
--
-- Returns {where to go on or '0', {what, how often; of each finding}}.
local terms     = KEYS[1]            -- zset: things by their expiry
local things    = KEYS[2]            -- hash: the things
local move_lock = KEYS[3]            -- string: the move lock, while the queue moves
local side      = ARGV[1]            -- 'terms' or 'things': which to go through
local cursor    = ARGV[2]            -- '0' at first
local limit     = tonumber(ARGV[3])  -- members to look at, about
local repair    = ARGV[4]            -- '1': repair it
--#include move_lock
--#include findings

local page = side == 'terms' and redis.call('ZSCAN', terms, cursor, 'COUNT', limit)
    or redis.call('HSCAN', things, cursor, 'COUNT', limit)
for at = 1, #page[2], 2 do
    local name = page[2][at]
    local both = redis.call('HEXISTS', things, name) == 1 and redis.call('ZSCORE', terms, name)
    if not both then
        note('term')
        if repair == '1' then
            redis.call('HDEL', things, name)
            redis.call('ZREM', terms, name)
        end
    end
end
return {page[1], findings()}
