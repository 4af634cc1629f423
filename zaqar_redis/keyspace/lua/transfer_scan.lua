-- Read one generation of records: {where to go on or '0', {name, record; of each}}.
local records = KEYS[1]            -- hash: name -> record
local gate    = KEYS[2]            -- string: keeps everybody out while it is there
local token   = ARGV[1]            -- of the move
local lease   = tonumber(ARGV[2])  -- ms
local cursor  = ARGV[3]            -- '0' at first
local limit   = tonumber(ARGV[4])  -- records to read, about
--#include moving

local refused = hold('out')
if refused then
    return refused
end
redis.call('PEXPIRE', gate, lease)
return redis.call('HSCAN', records, cursor, 'COUNT', limit)
