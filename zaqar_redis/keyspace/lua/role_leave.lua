-- Give up a role, for another process to take.
--
-- Returns 1, or 0 when this process does not have it.
--#keys role
--#args process

if redis.call('GET', role) ~= process then
    return 0
end
return redis.call('DEL', role)
