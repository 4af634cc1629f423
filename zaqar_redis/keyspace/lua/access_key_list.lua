-- Read a page of access keys, in order of id: {{id, its fields}, ...}.
--#keys access_key access_keys
--#args after limit:number
-- access_key: of an empty id; those of the ids on the page are in the same slot
-- after: '(' and an id, or '-'

local found = {}
for _, id in ipairs(redis.call('ZRANGEBYLEX', access_keys, after, '+', 'LIMIT', 0, limit)) do
    found[#found + 1] = {id, redis.call('HGETALL', access_key .. id)}
end
return found
