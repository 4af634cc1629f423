-- A batch is published: say so in the ledger, and forget all else that the writer put aside.
--
-- Returns 1, or 0 when the ledger says so already: what waits then is of a later batch.
local queue       = KEYS[1]            -- hash: the queue itself
local ledger      = KEYS[2]            -- hash: writer -> its entry in the ledger
local ledger_ends = KEYS[3]            -- zset: entries by the time they are forgotten
local stages      = KEYS[4]            -- hash: chunks that wait, and what is being published
local gate        = KEYS[5]            -- string: keeps everybody out while it is there
local due         = KEYS[6]            -- zset: queues of the slot by when one is due
local now         = tonumber(ARGV[1])  -- ms; 0: the time of Redis
local entry       = ARGV[2]            -- of the ledger; also names the writer
local batch       = tonumber(ARGV[3])  -- number
local window      = tonumber(ARGV[4])  -- ms to keep the entry
--#include gate
--#include now
--#include ledger
--#include ledger_write
--#include stages

local life = redis.call('HGET', queue, 'epoch')
local last = written(life)
if last and last >= batch then
    return 0
end
if life then  -- else there was nothing to publish
    write(life, batch, 0, '00')
    local soonest, noted = now + window, redis.call('HGET', queue, 'due')
--#include due
end
drop(entry)
return 1
