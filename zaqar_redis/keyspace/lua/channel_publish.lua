-- Append a publication to the channel's history, and send it.
--
-- Returns {offset, epoch, 1 when it is new}; offset 0 when no history is stored.
--#flags deny-oom
--#keys channel history once
--#args payload size:number ttl meta_ttl epoch remember version:number version_epoch send
--#pubsub publish
-- size: publications to keep; 0: none
-- epoch: of a new channel
-- remember: ms to store the key; 0: there is none
-- version: of the content; 0: it has none
-- send: 0: the caller does

if remember ~= '0' then
    local known = redis.call('GET', once)
    if known then
        local at, of = string.match(known, '^(%d+):(.*)$')
        return {tonumber(at), of, 0}
    end
end
local offset = 0
if size > 0 then
    local known = redis.call('HMGET', channel, 'epoch', 'offset', 'version', 'of')
    epoch = known[1] or epoch
    if version > 0 and known[3] and known[4] == version_epoch and version <= tonumber(known[3]) then
        return {tonumber(known[2]), epoch, 0}
    end
    if not known[1] then
        redis.call('HSET', channel, 'epoch', epoch)
        redis.call('DEL', history)  -- of an earlier epoch
    end
    offset = redis.call('HINCRBY', channel, 'offset', 1)
    if version > 0 then
        redis.call('HSET', channel, 'version', string.format('%.0f', version), 'of', version_epoch)
    end
    redis.call('EXPIRE', channel, meta_ttl)
    local id = string.format('%.0f-0', offset)
    redis.call('XADD', history, 'MAXLEN', size, id, 'p', payload)
    redis.call('EXPIRE', history, ttl)
else
    epoch = ''
end
local position = string.format('%.0f:', offset) .. epoch
if remember ~= '0' then
    redis.call('SET', once, position, 'PX', remember)
end
if send == '1' then
    redis.call(publish, channel .. ':news', 'p' .. position .. ':' .. payload)
end
return {offset, epoch, 1}
