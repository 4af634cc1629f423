-- Read which queues are due, to be swept or for deliveries: '<project>/<queue>' of each, by index.
--
-- No index is among the keys: a node of a cluster reads those of all its slots.
--#args now:number limit:number late:number at_once:flag rest...
-- late: for how long they have been due, ms; at_once: they may be tested together; rest: zsets,
-- queues of a slot by when they are due
--#include now

-- In a store of few queues most do not exist; one EXISTS of all costs a tenth of reading each.
if at_once and redis.call('EXISTS', unpack(ARGV, rest)) == 0 then
    return {}
end
local found, last = {}, now - late
for place = rest, #ARGV do
    local index = ARGV[place]
    for _, queue in ipairs(redis.call('ZRANGEBYSCORE', index, '-inf', last, 'LIMIT', 0, limit)) do
        found[#found + 1] = queue
    end
end
return found
