-- Delete a subscription. Returns 1, or 0 when it does not exist.
--#keys @subscription move_lock
--#args now:number id
--#include move_lock now subscription

return unsubscribe(id)
