-- As append.lua, into a queue that may have an order.
local verbs
if known[10] then
--#include order
    ordering = known[10]
    verbs = ordered()
end
--#include append
