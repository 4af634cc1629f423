-- Reserve the epoch of a queue that may be created in this store.
local reserved_epoch = KEYS[1]  -- string: the reserved epoch
local epoch          = ARGV[1]  -- '': drop the reservation
local kept           = ARGV[2]  -- seconds to keep it

if epoch == '' then
    redis.call('DEL', reserved_epoch)
else
    redis.call('SET', reserved_epoch, epoch, 'EX', kept)
end
