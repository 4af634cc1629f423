-- Begin another epoch of a channel that came back older than it was.
--
-- Returns 1, or 0 when the epoch is another one already.
--#keys channel
--#args old new
-- old: the epoch that is over
-- new: the one to begin

if redis.call('HGET', channel, 'epoch') ~= old then
    return 0
end
redis.call('HDEL', channel, 'epoch')  -- a full Redis lets a script go on that has written
redis.call('HSET', channel, 'epoch', new)
return 1
