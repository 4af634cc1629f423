-- Replace a queue's metadata, if nobody else changed it meanwhile.
--
-- Returns 'updated', 'changed', 'missing', 'grouped': a queue with messages keeps its groups as
-- they are, or 'many': it has too many messages to count their bytes.
--#keys queue messages bodies expiry move_lock
--#args expected metadata rest...
-- expected: the metadata as it was read, or '' for any
-- rest: name and value of each setting that the verbs go by
--#include move_lock

local stored = redis.call('HGET', queue, 'metadata')
if not stored then
    return 'missing'
elseif expected ~= '' and stored ~= expected then
    return 'changed'
end
local was, order, counted = redis.call('HGET', queue, 'order') or '', '', nil
for place = rest, #ARGV, 2 do
    order = ARGV[place] == 'order' and ARGV[place + 1] or order
    counted = counted or ARGV[place] == 'bytes' and (redis.call('HGET', queue, 'bytes') or 'not')
end
local has_messages = redis.call('EXISTS', messages) == 1
if has_messages and string.match(was, 'ordered$') ~= string.match(order, 'ordered$') then
    return 'grouped'
end
if counted == 'not' then
    if redis.call('ZCARD', expiry) > 20000 then  -- 20 ms
        return 'many'
    end
--#include count_bytes
    counted = bytes
end
redis.call('HDEL', queue, 'ttl', 'delay', 'size', 'sealed', 'max_claims', 'dead_queue', 'dead_ttl',
    'on_expiry', 'window', 'history', 'min_claim_ttl', 'redelivery', 'limits', 'order', 'dedup',
    'bytes')
redis.call('HSET', queue, 'metadata', metadata, unpack(ARGV, rest))
if counted then
    redis.call('HSET', queue, 'bytes', counted)
end
if has_messages and was ~= '' and order == '' then
    redis.call('HSET', queue, 'order', '0 none')  -- of some there are priorities
end
return 'updated'
