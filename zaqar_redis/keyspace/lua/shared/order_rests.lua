-- How groups of a queue with a rate rest.
function rests_until(group)
    local last = redis.call('ZREVRANGEBYLEX', groups, '(' .. group .. '\0s',
        '[' .. group .. '\0r', 'LIMIT', '0', '1')[1]
    return last and tonumber(string.sub(last, #group + 3)) or 0
end

function note_rest(group, ends)
    local time = string.format('%017.3f', ends)
    redis.call('ZADD', groups, '0', group .. '\0r' .. time, '0', '\2' .. time .. group)
end

function forget_rest(noted)
    redis.call('ZREM', groups, noted, string.sub(noted, 19) .. '\0r' .. string.sub(noted, 2, 18))
end

-- Let a group rest behind a message that is taken.
function begin_rest(group, following)
    local ends = now + rest
    note_rest(group, ends)
    if following then
        resumes = math.min(resumes, math.ceil(ends))
        redis.call('ZADD', delayed, string.format('%.0f', math.ceil(ends)), following)
    end
end

-- Forget rests that are over: more than begin.
function forget_rests(limit)
    local by_now = '(\2' .. string.format('%017.3f', now)
    for _, over in ipairs(redis.call('ZRANGEBYLEX', groups, '[\2', by_now, 'LIMIT', 0, limit)) do
        forget_rest(over)
    end
end
