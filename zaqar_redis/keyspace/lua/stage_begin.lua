-- Record which attempts are published for a batch, unless that was recorded before.
--
-- Returns the attempts to publish, by commas: those of an interrupted commit of the same
-- batch rather than these; or false when the batch is done, and then these are deleted.
local queue       = KEYS[1]            -- hash: the queue itself
local ledger      = KEYS[2]            -- hash: writer -> its entry in the ledger
local ledger_ends = KEYS[3]            -- zset: entries by the time they expire
local stages      = KEYS[4]            -- hash: chunks that wait, and what is being published
local move_lock   = KEYS[5]            -- string: the move lock, while the queue moves
local now         = tonumber(ARGV[1])  -- ms; 0: the time of Redis
local entry       = ARGV[2]            -- of the ledger; also names the writer
local batch       = tonumber(ARGV[3])  -- number
local tokens      = ARGV[4]            -- of the attempts, by commas
local ttl_ms      = tonumber(ARGV[5])  -- ms from now until all that waits expires
--#include move_lock
--#include now
--#include ledger
--#include stages

local last = last_chunk(redis.call('HGET', queue, 'epoch'))
if last and last >= batch then
    for token in string.gmatch(tokens, '[^,]+') do
        drop(entry .. ' ' .. token .. ' ')
    end
    return false
end
local noted = redis.call('HGET', stages, entry)
if noted then
    local of, earlier = string.match(noted, '^(%d+) (.*)$')
    if tonumber(of) == batch then
        tokens = earlier
    end
end
redis.call('HSET', stages, entry, string.format('%.0f ', batch) .. tokens)
redis.call('PEXPIRE', stages, ttl_ms)
return tokens
