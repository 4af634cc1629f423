-- The caller's time if it owns one, else Redis' own: hosts need not agree.
if now == 0 then
    local time = redis.call('TIME')
    now = time[1] * 1000 + math.floor(time[2] / 1000)
end
