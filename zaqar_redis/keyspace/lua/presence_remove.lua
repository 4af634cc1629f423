-- Remove a client from a channel's presence.
--#keys presence present users
--#args client user
--#include leave

leave(client, user)
return 1
