-- Settle deliveries that were made after their notifier had given the queue back.
--
-- Returns how many of them still waited to be made once more.
--#keys queue subscriptions @deliveries delivery_index move_lock
--#args now:number rest...
-- rest: ids of pending deliveries
--#include move_lock now wake_notifier failing

local made, is_due = 0, false
for place = rest, #ARGV do
    local delivery = ARGV[place]
    local id = string.match(delivery, '^[^ ]*')
    if redis.call('HDEL', pending, delivery) == 1 then
        made = made + 1
        for _, index in ipairs({pending_ids, pending_due, pending_ends}) do
            redis.call('ZREM', index, delivery)
        end
        local is_message = string.match(delivery, ' %d+$')
        if is_message and redis.call('HEXISTS', subscriptions, id) == 1 then
            redis.call('HINCRBY', delivery_states, id .. ' delivered', 1)
            note_not_failing(id)
        end
    end
    -- What comes behind it in order has waited for it.
    is_due = redis.call('ZADD', pending_due, 'XX', 'CH', now, id) == 1 or is_due
end
if is_due then
    wake_notifier(now)
end
return made
