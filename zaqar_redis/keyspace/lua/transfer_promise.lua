-- Say which epoch a queue is to have when it is made here.
local unborn = KEYS[1]  -- string: the epoch that the queue is to have
local epoch  = ARGV[1]  -- '': none any more
local kept   = ARGV[2]  -- seconds to keep it

if epoch == '' then
    redis.call('DEL', unborn)
else
    redis.call('SET', unborn, epoch, 'EX', kept)
end
