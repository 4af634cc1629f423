-- Note in the ledger that a writer has sent all of a batch: a chunk more would be others'.
--
-- Returns 'gone' when the queue does not know the writer, 'other' when more of the batch
-- came in, or it ended with other messages, else 'noted'.
local queue       = KEYS[1]            -- hash: the queue itself
local ledger      = KEYS[2]            -- hash: writer -> its entry in the ledger
local ledger_ends = KEYS[3]            -- zset: entries by the time they are forgotten
local gate        = KEYS[4]            -- string: keeps everybody out while it is there
local due         = KEYS[5]            -- zset: queues of the slot by when one is due
local now         = tonumber(ARGV[1])  -- ms; 0: the time of Redis
local entry       = ARGV[2]            -- of the ledger
local batch       = tonumber(ARGV[3])  -- number
local chunk       = tonumber(ARGV[4])  -- number behind that of the last chunk
local digest      = ARGV[5]            -- of all chunks of the batch, hexadecimal
local window      = tonumber(ARGV[6])  -- ms to keep the entry
--#include gate
--#include now
--#include ledger
--#include ledger_write

local life = redis.call('HGET', queue, 'epoch')
local last, part, same = written(life)
if not last then
    return 'gone'
end
if last > batch then
    return 'noted'
end
if last == batch and (part > chunk or (part == chunk and same ~= digest)) then
    return 'other'
end
write(life, batch, chunk, digest)
local soonest, noted = now + window, redis.call('HGET', queue, 'due')
--#include due
return 'noted'
