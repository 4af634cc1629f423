-- Begin another epoch of a channel that came back older than it was.
--
-- Returns 1, or 0 when the epoch is another one already.
local channel = KEYS[1]  -- hash: epoch, offset, version of a channel
local old     = ARGV[1]  -- the epoch that is over
local new     = ARGV[2]  -- the one to begin
if redis.call('HGET', channel, 'epoch') ~= old then
    return 0
end
redis.call('HSET', channel, 'epoch', new)
return 1
