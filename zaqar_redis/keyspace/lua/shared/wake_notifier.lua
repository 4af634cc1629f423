-- Note in the index of its slot that a queue has deliveries which are due, and tell notifiers.
local function wake_notifier(due)
    local name = string.sub(queue, 5, -2)
    redis.call('ZADD', delivery_index, 'LT', due, name)
    redis.call('PUBLISH', 'zr:deliveries', name)
end
