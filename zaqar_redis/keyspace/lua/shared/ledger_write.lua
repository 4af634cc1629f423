-- From now on `entry` says that this chunk, and all before it, came in.
local function write(life, batch, chunk, digest)
    local text = life .. ' ' .. digest .. ' ' .. string.format('%.0f %.0f', batch, chunk)
    redis.call('HSET', ledger, entry, text)
    redis.call('ZADD', ledger_ends, now + window, entry)
end
