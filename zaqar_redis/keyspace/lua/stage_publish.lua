-- Append a staged chunk to the queue; it waits no longer.
--
-- Returns {'gone'} when no such chunk waits, {'missing'} when there is no queue and no
-- epoch to make one with, {'large', limit}, {'full', limit, how many, of what}, {'paused'},
-- {'plain'} when the queue wants bodies
-- encrypted, or {'posted', not yet listed}.
--#flags deny-oom
--#keys @append @room stages
--#args now:number epoch size:number default_ttl:number encrypted:flag field
--#pubsub publish
-- epoch: of a queue to create, or ''
-- size: bytes of the chunk
-- field: writer, attempt and number of the chunk
--#include move_lock now pack queue_fields

local packed = redis.call('HGET', stages, field)
if not packed then
    return {'gone'}
end
--#include admit
local values, skip = cmsgpack.unpack(packed), 0
--#include make_room append_ordered trim note_sweep
redis.call('HDEL', stages, field)
return {'posted', unlisted}
