-- Record which attempts are published for a batch, unless that was recorded before.
--
-- Returns the attempts to publish, by commas: those of an interrupted commit of the same
-- batch rather than these; or false when the batch is done, and then these are deleted.
--#flags deny-oom
--#keys queue ledger ledger_ends stages move_lock
--#args now:number entry batch:number tokens ttl_ms:number
-- entry: of the ledger; also names the writer
-- tokens: of the attempts, by commas
-- ttl_ms: ms from now until all that waits expires
--#include move_lock now ledger stages

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
