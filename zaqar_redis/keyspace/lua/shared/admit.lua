-- What stands against appending is answered; else there is a queue now, and `epoch` its.
if known[4] and tonumber(size) > tonumber(known[4]) then
    return {'large', tonumber(known[4])}
end
if known[5] and sealed ~= '1' then
    return {'plain'}
end
if known[1] then
    epoch = known[1]
elseif epoch == '' then
    return {'missing'}
else
    epoch = redis.call('GET', unborn) or epoch
    redis.call('HSET', queue, 'epoch', epoch, 'created', now, 'metadata', '{}', 'unlisted', 1)
    redis.call('DEL', unborn)
end
