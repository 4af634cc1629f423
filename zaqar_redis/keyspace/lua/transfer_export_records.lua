-- Read one generation of records: {where to go on or '0', {name, record; of each}}.
local records   = KEYS[1]            -- hash: name -> record
local move_lock = KEYS[2]            -- string: the move lock, while the queue moves
local token     = ARGV[1]            -- of the move
local lease     = tonumber(ARGV[2])  -- ms
local cursor    = ARGV[3]            -- '0' at first
local limit     = tonumber(ARGV[4])  -- records to read, about
--#include hold_move_lock

local refused = check_move_lock('out')
if refused then
    return refused
end
redis.call('PEXPIRE', move_lock, lease)
return redis.call('HSCAN', records, cursor, 'COUNT', limit)
