-- The pools that a project's queues live in: pool, how many; of each.
local project = KEYS[1]  -- hash: pool -> how many queues of the project

return redis.call('HGETALL', project)
