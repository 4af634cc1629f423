-- When the first message of the oldest entry for delivery expires, ms; nil: there is no entry.
--#include envelope

local function expiry_of_oldest_entry()
    local oldest = redis.call('XRANGE', deliveries, '-', '+', 'COUNT', 1)[1]
    if oldest then
        local head = string.match(oldest[2][2], '^%x+:%d+:()')
        return expiry_of(string.sub(oldest[2][2], head, head + 40)), oldest[1]
    end
end
