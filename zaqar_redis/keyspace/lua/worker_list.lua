-- List the names of the workers that live.
--#keys workers
--#args now:number
--#include now

local live = {}
local all = redis.call('HGETALL', workers)
for at = 1, #all, 2 do
    if tonumber(string.match(all[at + 1], '^%d+')) > now then
        live[#live + 1] = all[at]
    end
end
return live
