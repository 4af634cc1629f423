-- Only the mover that shut the gate may go on; `side` is 'out' or 'into'.
local function hold(side)
    local shut = redis.call('GET', gate)
    if shut ~= side .. ':' .. token then
        return redis.error_reply('GATED ' .. (shut or ''))
    end
end
