-- From now on `entry` says that this chunk, and all before it, came in.
local function write(life, batch, chunk, digest)
    local text = life .. ' ' .. digest .. ' ' .. string.format('%.0f %.0f', batch, chunk)
    redis.call('HSET', receipts, entry, text)
    redis.call('ZADD', lapses, now + window, entry)
end
