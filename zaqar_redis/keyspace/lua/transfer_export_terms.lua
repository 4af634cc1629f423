-- Read things that expire on their own: id, expiry, what belongs to it; of each.
--#keys terms things move_lock
--#args token lease:number skip:number limit:number
-- skip: how many to pass over
--#include source_lock

local page = {}
local flat = redis.call('ZRANGE', terms, skip, skip + limit - 1, 'WITHSCORES')
for at = 1, #flat, 2 do
    page[#page + 1] = flat[at]
    page[#page + 1] = flat[at + 1]
    page[#page + 1] = redis.call('HGET', things, flat[at]) or ''
end
return page
