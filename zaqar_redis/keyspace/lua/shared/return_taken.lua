-- Return what take_ready.lua took: the messages that are `found`, and the dead letters.
if opened > 0 then  -- by dead letters, or by what was popped
    redis.call(publish, queue .. ':feed', opened)
end
if soonest < math.huge then
    local noted = known[4]
--#include note_sweep
end
return {now, known[1], taken == 0 and left and 1 or 0, taken == 0 and next_visible_in(), found,
    dead, known[2], known[3]}
