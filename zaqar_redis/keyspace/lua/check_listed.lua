-- Check that queues that the catalogue has in a pool are listed for it: those that are not.
--#keys catalogue queues
--#args pool repair:flag rest...
-- rest: the queues

local wrong = {}
for place = rest, #ARGV do
    local queue = ARGV[place]
    if redis.call('HGET', catalogue, queue) == pool and not redis.call('ZSCORE', queues, queue) then
        wrong[#wrong + 1] = queue
        if repair then
            redis.call('ZADD', queues, 0, queue)
        end
    end
end
return wrong
