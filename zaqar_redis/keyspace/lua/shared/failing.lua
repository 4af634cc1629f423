-- Subscriptions to which every attempt has failed for a while: '<id> failing' of the states says
-- since when attempts fail, and 'failing' has the ids, blanks around each, of those that do for
-- FAILING_AFTER: only so many that an operator's look at them stays cheap.
local FAILING_AFTER = 5 * 60 * 1000  -- ms: longer than an endpoint needs to be started again
local FAILING_MAX = 4096  -- bytes

local function note_failing(id)
    local since = redis.call('HGET', delivery_states, id .. ' failing')
    if not since then
        redis.call('HSET', delivery_states, id .. ' failing', string.format('%.0f', now))
    elseif now - since >= FAILING_AFTER then
        local known = redis.call('HGET', delivery_states, 'failing') or ' '
        if #known < FAILING_MAX and not string.find(known, ' ' .. id .. ' ', 1, true) then
            redis.call('HSET', delivery_states, 'failing', known .. id .. ' ')
        end
    end
end

local function note_not_failing(id)
    if redis.call('HDEL', delivery_states, id .. ' failing') == 0 then
        return
    end
    local known = redis.call('HGET', delivery_states, 'failing') or ' '
    local first, last = string.find(known, ' ' .. id .. ' ', 1, true)
    if first then
        local left = string.sub(known, 1, first) .. string.sub(known, last + 1)
        if left == ' ' then
            redis.call('HDEL', delivery_states, 'failing')
        else
            redis.call('HSET', delivery_states, 'failing', left)
        end
    end
end
