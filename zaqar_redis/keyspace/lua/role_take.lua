-- Take a role that one process has at a time, or keep it for longer.
--
-- Returns 1, or 0 when another process has it.
local role    = KEYS[1]            -- string with an expiry: who has it
local process = ARGV[1]            -- who asks
local period  = tonumber(ARGV[2])  -- ms

local holder = redis.call('GET', role)
if holder and holder ~= process then
    return 0
end
redis.call('SET', role, process, 'PX', period)
return 1
