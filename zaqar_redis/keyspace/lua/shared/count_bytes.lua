-- Count `bytes`, those of the messages in `expiry`: what the queue's field of that name has.
local PAGE = 1000
local bytes = 0
for from = 0, redis.call('ZCARD', expiry) - 1, PAGE do
    for _, rank in ipairs(redis.call('ZRANGE', expiry, from, from + PAGE - 1)) do
        bytes = bytes + redis.call('HSTRLEN', bodies, rank)
    end
end
