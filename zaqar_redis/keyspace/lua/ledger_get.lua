-- Read an entry of the ledger: {batch, chunk}, or false when it says nothing.
local queue       = KEYS[1]            -- hash: the queue itself
local ledger      = KEYS[2]            -- hash: writer -> its entry in the ledger
local ledger_ends = KEYS[3]            -- zset: entries by the time they are forgotten
local gate        = KEYS[4]            -- string: keeps everybody out while it is there
local now         = tonumber(ARGV[1])  -- ms; 0: the time of Redis
local entry       = ARGV[2]            -- of the ledger
--#include gate
--#include now
--#include ledger

local batch, chunk = written(redis.call('HGET', queue, 'epoch'))
return batch and {batch, chunk} or false
