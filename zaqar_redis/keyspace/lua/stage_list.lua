-- Read which chunks of an attempt wait: their numbers, in no order.
--#keys stages move_lock
--#args attempt
-- attempt: what the fields of its chunks begin with
--#include move_lock

local numbers = {}
for _, field in ipairs(redis.call('HKEYS', stages)) do
    if string.sub(field, 1, #attempt) == attempt then
        numbers[#numbers + 1] = tonumber(string.sub(field, #attempt + 1))
    end
end
return numbers
