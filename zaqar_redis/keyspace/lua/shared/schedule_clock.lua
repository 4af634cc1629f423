-- Notes the time, for which schedules are planned, and returns it.
local function see(time)
    local text = string.format('%.0f', time)
    if time > tonumber(redis.call('GET', schedule_clock) or 0) then
        redis.call('SET', schedule_clock, text)
    end
    return text
end
