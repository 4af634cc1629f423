-- Check that queues that the catalogue has in a pool are listed for it: those that are not.
local catalogue = KEYS[1]  -- hash: queue -> pool
local queues    = KEYS[2]  -- zset: queues that live in the pool
local pool      = ARGV[1]  -- name
local repair    = ARGV[2]  -- '1': repair it
-- ARGV[3...]: the queues

local wrong = {}
for place = 3, #ARGV do
    local queue = ARGV[place]
    if redis.call('HGET', catalogue, queue) == pool and not redis.call('ZSCORE', queues, queue) then
        wrong[#wrong + 1] = queue
        if repair == '1' then
            redis.call('ZADD', queues, 0, queue)
        end
    end
end
return wrong
