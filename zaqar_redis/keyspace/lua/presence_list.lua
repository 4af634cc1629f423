-- Read a channel's presence: client, user and info; of each.
--#keys presence present users
--#args now:number
--#include now expire_presence

return redis.call('HGETALL', present)
