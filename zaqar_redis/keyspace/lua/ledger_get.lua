-- Read an entry of the ledger: {batch, chunk}, or false when it does not exist.
--#keys queue ledger ledger_ends move_lock
--#args now:number entry
--#include move_lock now ledger

local batch, chunk = last_chunk(redis.call('HGET', queue, 'epoch'))
return batch and {batch, chunk} or false
