-- Return why nothing may be appended; else create the queue if needed, and set `epoch` to its.
if known[4] and tonumber(size) > tonumber(known[4]) then
    return {'large', tonumber(known[4])}
end
if known[5] and not encrypted then
    return {'plain'}
end
if known[1] then
    epoch = known[1]
elseif epoch == '' then
    return {'missing'}
else
    epoch = redis.call('GET', reserved_epoch) or epoch
    redis.call('HSET', queue, 'epoch', epoch, 'created', now, 'metadata', '{}', 'unlisted', 1)
    redis.call('DEL', reserved_epoch)
end
