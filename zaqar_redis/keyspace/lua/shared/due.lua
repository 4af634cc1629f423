-- Note in the index of its slot when something of the queue is due: `soonest`, unless the
-- queue has `noted` an earlier time. It notes one when its name stands in the project's list,
-- so that a post reads and compares one field for both. Of a queue that is not there, but has
-- subscribers, the index alone knows.
local unlisted = 0
if not noted or soonest < noted + 0 then  -- a number in half the time of tonumber()
    redis.call('ZADD', due, 'LT', soonest, string.sub(queue, 5, -2))
    local has = redis.call('HMGET', queue, 'epoch', 'unlisted')
    if has[2] then
        unlisted = 1
    elseif has[1] then
        redis.call('HSET', queue, 'due', soonest)
    end
end
