-- Read subscriptions in order of their ids: {now, id, expiry, subscription; of each}.
local subscriptions     = KEYS[1]            -- hash: id -> subscription
local subscription_ids  = KEYS[2]            -- zset, score 0: ids
local subscription_ends = KEYS[3]            -- zset: ids by expiry
local move_lock         = KEYS[4]            -- string: the move lock, while the queue moves
local now               = tonumber(ARGV[1])  -- ms; 0: the time of Redis
local after             = ARGV[2]            -- id to go on behind, or ''
local limit             = tonumber(ARGV[3])  -- how many at most
--#include move_lock
--#include now

local found = {now}
while limit > 0 do
    local from = after == '' and '-' or '(' .. after
    local ids = redis.call('ZRANGEBYLEX', subscription_ids, from, '+', 'LIMIT', 0, limit)
    for _, id in ipairs(ids) do
        after = id
        local ends = tonumber(redis.call('ZSCORE', subscription_ends, id))
        if ends > now then
            found[#found + 1] = id
            found[#found + 1] = ends
            found[#found + 1] = redis.call('HGET', subscriptions, id)
            limit = limit - 1
        end
    end
    if #ids == 0 then
        break
    end
end
return found
