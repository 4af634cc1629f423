-- How many queues a pool has. While the record of a move lasts, it still counts in the pool that it
-- leaves, and already in the one that it comes to: their stores have a part of it.
local function queue_count(pool)
    local count = redis.call('ZCARD', queues)
    local all = redis.call('HVALS', moves)
    for at = 1, #all do
        local source, target, state = string.match(all[at], '^%S+ (%S+) (%S+) (%d)$')
        if (state == '1' and source or target) == pool then
            count = count + 1
        end
    end
    return count
end
