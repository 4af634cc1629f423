-- Which chunks of an attempt wait: their numbers, in no order.
local stages  = KEYS[1]  -- hash: chunks that wait, and what is being published
local gate    = KEYS[2]  -- string: keeps everybody out while it is there
local attempt = ARGV[1]  -- what the fields of its chunks begin with
--#include gate

local numbers = {}
for _, field in ipairs(redis.call('HKEYS', stages)) do
    if string.sub(field, 1, #attempt) == attempt then
        numbers[#numbers + 1] = tonumber(string.sub(field, #attempt + 1))
    end
end
return numbers
