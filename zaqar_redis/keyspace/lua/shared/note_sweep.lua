-- Note in the index of its slot when the queue is to be swept: at `soonest`, unless the queue
-- has `noted` an earlier time. It notes one only when it is in its project's list, so that a
-- post reads and compares one field for both. A queue that does not exist, but has
-- subscriptions, is noted in the index alone.
local unlisted = 0
if not noted or soonest < noted + 0 then  -- a number in half the time of tonumber()
    local name = string.sub(queue, 5, -2)
    redis.call('ZADD', sweep_index, 'LT', soonest, name)
    local has = redis.call('HMGET', queue, 'epoch', 'unlisted')
    if has[2] then
        unlisted = 1
    elseif has[1] then
        -- Not `soonest`: something that ends before was noted while the queue was unlisted.
        redis.call('HSET', queue, 'due', redis.call('ZSCORE', sweep_index, name))
    end
end
