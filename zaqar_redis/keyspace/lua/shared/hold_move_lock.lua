-- Only the mover that took the move lock may go on; `side` is 'out' or 'into'.
local function check_move_lock(side)
    local lock = redis.call('GET', move_lock)
    if lock ~= side .. ':' .. token then
        return redis.error_reply('GATED ' .. (lock or ''))
    end
end
