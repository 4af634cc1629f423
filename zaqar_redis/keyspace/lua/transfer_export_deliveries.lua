-- Read entries for delivery: id, expiry and entry with a blank between; of each.
--#keys deliveries move_lock
--#args token lease:number after limit:number
--#include source_lock

local page = {}
for place, entry in ipairs(redis.call('XRANGE', deliveries, '(' .. after, '+', 'COUNT', limit)) do
    page[2 * place - 1], page[2 * place] = entry[1], table.concat(entry[2], ' ')
end
return page
