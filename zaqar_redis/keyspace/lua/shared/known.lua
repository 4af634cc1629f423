-- What a queue says of posts to it.
local known = redis.call('HMGET', queue, 'epoch', 'ttl', 'delay', 'size', 'sealed', 'due')
