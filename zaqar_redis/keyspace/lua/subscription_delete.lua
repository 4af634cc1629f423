-- Delete a subscription. Returns 1, or 0 when it does not exist.
--#keys subscriptions subscribers subscription_ids subscription_ends move_lock
--#args id
--#include move_lock subscription

return unsubscribe(id)
