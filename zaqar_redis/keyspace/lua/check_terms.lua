-- Check that everything that expires has an expiry time, and every expiry time its thing.
--
-- Returns {where to go on or '0', how many, {what, how often; of each finding}}.
--#keys terms things move_lock
--#args side cursor limit:number repair:flag
-- side: 'terms' or 'things': which to go through
--#include move_lock findings

local page = side == 'terms' and redis.call('ZSCAN', terms, cursor, 'COUNT', limit)
    or redis.call('HSCAN', things, cursor, 'COUNT', limit)
for at = 1, #page[2], 2 do
    local name = page[2][at]
    local both = redis.call('HEXISTS', things, name) == 1 and redis.call('ZSCORE', terms, name)
    if not both then
        note('term')
        if repair then
            redis.call('HDEL', things, name)
            redis.call('ZREM', terms, name)
        end
    end
end
return {page[1], #page[2] / 2, findings()}
