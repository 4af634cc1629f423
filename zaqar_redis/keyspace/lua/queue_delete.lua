-- Remove a queue with everything it owns.
--#keys @queue move_lock stages sweep_index
--#include move_lock delete_queue

return redis.call('UNLINK', stages)
