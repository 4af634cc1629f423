-- Create or replace the quota of a project.
--
-- Returns 1, or 0 when there are too many.
--#keys quotas quota_version
--#args project quota most:number

if redis.call('HEXISTS', quotas, project) == 0 and redis.call('HLEN', quotas) >= most then
    return 0
end
redis.call('HDEL', quotas, project)  -- a full Redis lets a script go on that has written
redis.call('HSET', quotas, project, quota)
redis.call('INCR', quota_version)
return 1
