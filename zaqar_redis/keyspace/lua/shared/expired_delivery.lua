-- A message that expires before it is delivered is the last failure of its subscription, unless
-- every attempt fails: then that failure says more.
local function note_expired(subscription)
    if redis.call('HEXISTS', delivery_states, subscription .. ' failing') == 0 then
        redis.call('HSET', delivery_states, subscription .. ' last',
            string.format('%.0f 0 it expired before it was delivered', now))
    end
end
