-- How many queues a pool has.
--#keys queues moves
--#args name
--#include queue_count

return queue_count(name)
