-- Replace a queue's metadata, if nobody else changed it meanwhile.
--
-- Returns 'updated', 'changed', 'missing', 'grouped': a queue with messages keeps its groups as
-- they are, or 'many': it has too many messages to count their bytes.
--#keys queue messages bodies expiry ready claimed delayed order groups move_lock sweep_index
--#args now:number expected metadata rest...
--#pubsub publish
-- expected: the metadata as it was read, or '' for any
-- rest: name and value of each setting that the verbs go by
--#include move_lock now order parked

local ANY_NUMBER = 999999999  -- that may be held of a group, and they are counted
local stored = redis.call('HGET', queue, 'metadata')
if not stored then
    return 'missing'
elseif expected ~= '' and stored ~= expected then
    return 'changed'
end
local was, becomes = redis.call('HGET', queue, 'order') or '', ''
for place = rest, #ARGV, 2 do
    becomes = ARGV[place] == 'order' and ARGV[place + 1] or becomes
    counted = counted or ARGV[place] == 'bytes' and (redis.call('HGET', queue, 'bytes') or 'not')
end
local has_messages = redis.call('EXISTS', messages) == 1
local function mode_of(field)
    return string.match(field, '^%S+ (%a+)') or 'none'
end
if has_messages and mode_of(was) ~= mode_of(becomes) then
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
if has_messages and was ~= '' and becomes == '' then
    redis.call('HSET', queue, 'order', '0 none')  -- of some there are priorities
end
if not has_messages and was ~= becomes then
    redis.call('DEL', groups)  -- of rests, which a group keeps when it is empty
end
if has_messages and mode_of(becomes) == 'fair' then
    -- As long as groups may rest that have begun to: their next messages are delayed.
    local no_rate = not string.find(was, '^0 fair %d+ 0\n') and '^(0 fair %d+) 0\n'
    becomes = no_rate and string.gsub(becomes, no_rate, '%1 1e-9\n') or becomes
    -- As long as there may be entries of what is held: a later limit has to find them all.
    local was_counted = string.find(was, '^0 fair [^0]')
    becomes = was_counted and string.gsub(becomes, '^0 fair 0 ', '0 fair ' .. ANY_NUMBER .. ' ')
        or becomes
    redis.call('HSET', queue, 'order', becomes)
    read_order()
    for from = 0, not was_counted and has_places() and 9000 or -1, 1000 do  -- 20 ms
        local held = redis.call('ZRANGEBYSCORE', claimed, '(' .. string.format('%.0f', now),
            '(' .. PARKED, 'LIMIT', from, 1000)
        if #held > 0 then
            ordered().count_held(held)
        end
    end
    ordered().reopen()
    redis.call(publish, queue .. ':feed', opened)
    if resumes < math.huge then
        local soonest, noted = resumes, redis.call('HGET', queue, 'due')
--#include note_sweep
    end
end
return 'updated'
