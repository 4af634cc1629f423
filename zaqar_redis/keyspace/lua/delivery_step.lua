-- Settle deliveries, and read what is due next; the notifier keeps the queue for `lease` ms.
--
-- Returns {} when it has lost the queue, and has changed nothing; else {now, version of the
-- subscriptions or false, {id, entry; of each}, {id, record or false; of each that is due}, when
-- the next one is due or false}.
--#keys queue subscriptions @deliveries delivery_lease delivery_index sweep_index move_lock
--#args now:number token lease:number after limit:number due_limit:number rest...
-- after: entry that was read last
-- limit: entries
-- rest: a number, and as many, of each of: entries that are done; (id, when it is due, '' or
--   'failed', expiry, record) of pending deliveries; pending deliveries that are done, some of them
--   stored just now; (id of a subscription, when the deliveries that wait for it are due or '');
--   (field of the states, number to add); (field of the states, what follows the time in it)
--#include move_lock now pending_records failing expired_delivery

if redis.call('GET', delivery_lease) ~= token then
    return {}
end
redis.call('PEXPIRE', delivery_lease, lease)

local at = rest
local function next_list(width)
    local first, count = at + 1, tonumber(ARGV[at]) * width
    at = first + count
    return first, at - 1
end

local from, to = next_list(1)
if to >= from then
    redis.call('XDEL', deliveries, unpack(ARGV, from, to))
end
from, to = next_list(4)
local soonest, noted = nil, redis.call('HGET', queue, 'due')
for place = from, to, 4 do
    local id, due, ends, record = unpack(ARGV, place, place + 3)
    redis.call('HSET', pending, id, record)
    redis.call('ZADD', pending_ends, ends, id)
    if due == 'failed' then
        redis.call('ZREM', pending_ids, id)
    else
        redis.call('ZADD', pending_ids, 0, id)
    end
    if tonumber(due) then
        redis.call('ZADD', pending_due, due, id)
    else
        redis.call('ZREM', pending_due, id)
    end
    if not soonest or tonumber(ends) < soonest then
        soonest = tonumber(ends)
    end
end
if soonest then
--#include note_sweep
end
from, to = next_list(1)
if to >= from then
    redis.call('HDEL', pending, unpack(ARGV, from, to))
    for _, index in ipairs({pending_ids, pending_due, pending_ends}) do
        redis.call('ZREM', index, unpack(ARGV, from, to))
    end
end
from, to = next_list(2)
for place = from, to, 2 do
    if ARGV[place + 1] ~= '' then
        redis.call('ZADD', pending_due, ARGV[place + 1], ARGV[place])
    elseif tonumber(redis.call('ZSCORE', pending_due, ARGV[place]) or 0) > now then
        redis.call('ZREM', pending_due, ARGV[place])  -- else it was replayed or resumed meanwhile
    end
end
-- Attempts may end after their subscriptions: nobody would delete the states of these.
local function is_subscription(field)
    return redis.call('HEXISTS', subscriptions, string.match(field, '^[^ ]*')) == 1
end
from, to = next_list(2)
local delivered, failed = {}, {}
for place = from, to, 2 do
    if is_subscription(ARGV[place]) then
        redis.call('HINCRBY', delivery_states, ARGV[place], ARGV[place + 1])
        local id, what = string.match(ARGV[place], '^(.*) (%a+)$')
        if what == 'delivered' then
            delivered[id] = true
            note_not_failing(id)
        else
            failed[id] = what
        end
    end
end
from, to = next_list(2)
for place = from, to, 2 do
    if is_subscription(ARGV[place]) then
        redis.call('HSET', delivery_states, ARGV[place],
            string.format('%.0f ', now) .. ARGV[place + 1])
        local id = string.match(ARGV[place], '^[^ ]*')
        if failed[id] and not delivered[id] then  -- else it was a notice
            note_failing(id)
        end
        failed[id] = nil
    end
end
for id in pairs(failed) do
    note_expired(id)
end

local entries, bytes = {}, 0
while #entries < 2 * limit and bytes < BYTES do
    local page = redis.call('XRANGE', deliveries, '(' .. after, '+', 'COUNT', 8)
    for _, entry in ipairs(page) do
        after = entry[1]
        entries[#entries + 1] = after
        entries[#entries + 1] = entry[2][2]
        bytes = bytes + #entry[2][2]
    end
    if #page < 8 then
        break
    end
end
-- From now on the notifier waits for a hint, unless it has got entries or left them: then it reads
-- on by itself, and a time that has come keeps posts (append.lua) from telling it.
local reads_on = #entries > 0 or limit == 0
redis.call('ZADD', delivery_index, reads_on and now or now + lease, string.sub(queue, 5, -2))
-- What is read is due again when the notifier dies.
local due = redis.call('ZRANGEBYSCORE', pending_due, '-inf', now, 'LIMIT', 0, due_limit)
local found = pending_records(due)
for place = 1, #found, 2 do
    redis.call('ZADD', pending_due, now + lease, found[place])
end
local next_due = redis.call('ZRANGE', pending_due, 0, 0, 'WITHSCORES')[2]
return {now, redis.call('HGET', queue, 'subscribed'), entries, found,
    next_due and tonumber(next_due)}
