-- The fields of a queue that decide about posts to it.
local known = redis.call('HMGET', queue, 'epoch', 'ttl', 'delay', 'size', 'sealed', 'due',
    'subscribed', 'history', 'limits', 'order', 'dedup')
