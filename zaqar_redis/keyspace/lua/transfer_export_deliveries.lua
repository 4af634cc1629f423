-- Read entries for delivery: id, entry; of each.
--#keys deliveries move_lock
--#args token lease:number after limit:number
--#include source_lock

local page = {}
for place, entry in ipairs(redis.call('XRANGE', deliveries, '(' .. after, '+', 'COUNT', limit)) do
    page[2 * place - 1], page[2 * place] = entry[1], entry[2][2]
end
return page
