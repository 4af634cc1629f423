-- Count the clients and users in a channel.
--#keys presence present users
--#args now:number
--#include now expire_presence

return {redis.call('HLEN', present), redis.call('HLEN', users)}
