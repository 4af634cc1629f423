-- Delete the quota of a project.
--#keys quotas quota_version
--#args project

redis.call('HDEL', quotas, project)
redis.call('INCR', quota_version)
