-- Send a publication, and append it to the channel's history.
--
-- Returns {offset, epoch, 1 when it was sent}; offset 0 when no history is stored.
local channel       = KEYS[1]            -- hash: epoch, offset, version of a channel
local history       = KEYS[2]            -- stream: publications, by offset
local once          = KEYS[3]            -- string: the position that a key was given
local payload       = ARGV[1]            -- of the publication
local size          = tonumber(ARGV[2])  -- publications to keep; 0: none
local ttl           = ARGV[3]            -- seconds to keep them
local meta_ttl      = ARGV[4]            -- seconds to keep offset and epoch
local epoch         = ARGV[5]            -- of a new channel
local remember      = ARGV[6]            -- ms to store the key; 0: there is none
local version       = tonumber(ARGV[7])  -- of the content; 0: it has none
local version_epoch = ARGV[8]            -- within which versions are compared
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
redis.call('PUBLISH', channel .. ':news', 'p' .. position .. ':' .. payload)
return {offset, epoch, 1}
