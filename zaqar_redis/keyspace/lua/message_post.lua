-- Append messages to a queue without rules, in the order given, under the next ranks.
--
-- It names fewer keys than message_post_ruled.lua, because each costs a hundredth of a post.
-- Returns {'missing'} when there is no queue, {'ruled'} when message_post_ruled.lua has to post,
-- {'large', limit}, {'plain'} when the queue wants bodies encrypted, else
-- {'posted', epoch, first rank, how many, '', not yet listed}.
--#flags deny-oom
--#keys @append
--#args now:number size default_ttl:number encrypted:flag rest...
--#pubsub publish
-- size: bytes of the request
-- rest: ttl or -1, delay or -1, rest of the envelope; for each message
--#include move_lock now pack queue_fields

if not known[1] then
    return {'missing'}
elseif known[9] or known[10] or known[11] then
    return {'ruled'}
end
--#include admissible
local epoch, values, skip, verbs = known[1], ARGV, rest - 1, nil
--#include append trim note_sweep
return {'posted', epoch, first, count, '', unlisted}
