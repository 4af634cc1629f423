-- Import pending deliveries: those that are not given up are due at once.
--#keys queue pending pending_ids pending_due pending_ends delivery_index move_lock
--#args token rest...
-- rest: id, expiry, record; of each
--#include target_lock

local ATTEMPTS_BYTES = {[0xcc] = 2, [0xcd] = 3, [0xce] = 5}  -- of numbers in msgpack
-- Whether a record says when it is tried again: its second value, behind the attempts, is not nil.
local function has_time(record)
    return string.byte(record, 3 + (ATTEMPTS_BYTES[string.byte(record, 3)] or 1)) ~= 0xc0
end

for place = rest, #ARGV, 3 do
    local id, ends, record = ARGV[place], ARGV[place + 1], ARGV[place + 2]
    redis.call('HSET', pending, id, record)
    redis.call('ZADD', pending_ends, ends, id)
    if string.sub(record, 1, 1) ~= 'f' then
        redis.call('ZADD', pending_ids, 0, id)
        redis.call('ZADD', pending_due, 0, string.match(id, '^[^ ]*'))
        if has_time(record) then
            redis.call('ZADD', pending_due, 0, id)
        end
    end
end
redis.call('ZADD', delivery_index, 0, string.sub(queue, 5, -2))  -- notifiers look when it is here
return 1
