-- Remove a queue with everything it owns.
--#keys @queue move_lock stages delivery_lease sweep_index delivery_index
--#include move_lock delete_queue

return redis.call('UNLINK', stages, delivery_lease)
