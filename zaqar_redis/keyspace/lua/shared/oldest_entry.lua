-- When all messages of the oldest entry for delivery have expired, ms, and its id; nil: there is no
-- entry. Its field says when.
local function expiry_of_oldest_entry()
    local oldest = redis.call('XRANGE', deliveries, '-', '+', 'COUNT', 1)[1]
    if oldest then
        return tonumber(oldest[2][1]), oldest[1]
    end
end
