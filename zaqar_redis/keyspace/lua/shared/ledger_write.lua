-- Record in `entry` that this chunk, and all before it, were appended.
local function write_entry(epoch, batch, chunk, digest)
    local text = epoch .. ' ' .. digest .. ' ' .. string.format('%.0f %.0f', batch, chunk)
    redis.call('HSET', ledger, entry, text)
    redis.call('ZADD', ledger_ends, now + window, entry)
end
