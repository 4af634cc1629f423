-- Take `leaving` off the queue's bytes, if it counts them: those of the messages in `expiry`.
if counted then
    local bytes = 0
    for place, ends in ipairs(redis.call('ZMSCORE', expiry, unpack(leaving))) do
        bytes = bytes + (ends and redis.call('HSTRLEN', bodies, leaving[place]) or 0)
    end
    redis.call('HINCRBY', queue, 'bytes', 0 - bytes)  -- for -0 is no integer
end
