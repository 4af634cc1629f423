-- Give up a role, for another process to take.
--
-- Returns 1, or 0 when this process does not have it.
local role    = KEYS[1]  -- string with an expiry: who has it
local process = ARGV[1]  -- who asks

if redis.call('GET', role) ~= process then
    return 0
end
return redis.call('DEL', role)
