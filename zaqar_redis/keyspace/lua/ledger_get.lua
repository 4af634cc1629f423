-- Read an entry of the ledger: {batch, chunk}, or false when it does not exist.
local queue       = KEYS[1]            -- hash: the queue itself
local ledger      = KEYS[2]            -- hash: writer -> its entry in the ledger
local ledger_ends = KEYS[3]            -- zset: entries by the time they expire
local move_lock   = KEYS[4]            -- string: the move lock, while the queue moves
local now         = tonumber(ARGV[1])  -- ms; 0: the time of Redis
local entry       = ARGV[2]            -- of the ledger
--#include move_lock
--#include now
--#include ledger

local batch, chunk = last_chunk(redis.call('HGET', queue, 'epoch'))
return batch and {batch, chunk} or false
