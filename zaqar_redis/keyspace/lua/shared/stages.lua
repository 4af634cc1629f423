-- Delete the chunks whose fields begin with `start`: an attempt's, or a writer's.
local function drop(start)
    local gone = {}
    for _, field in ipairs(redis.call('HKEYS', stages)) do
        if string.sub(field, 1, #start) == start then
            gone[#gone + 1] = field
        end
    end
    for from = 1, #gone, 1000 do  -- Lua cannot unpack more than about 8000 values
        redis.call('HDEL', stages, unpack(gone, from, math.min(from + 999, #gone)))
    end
end
