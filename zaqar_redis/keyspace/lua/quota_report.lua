-- Report that a worker lives, and read the reports of the others, and changed quotas.
--
-- Returns {version, {report of each other live worker}, {project, quota; of each} or false}.
--#keys workers quotas quota_version
--#args now:number worker period:number report known
-- period: ms for which the worker lives on; known: a version, or ''
--#include now

redis.call('HDEL', workers, worker)  -- a full Redis lets a script go on that has written
redis.call('HSET', workers, worker, string.format('%.0f %s', now + period, report))
redis.call('PEXPIRE', workers, period)
local others = {}
local all = redis.call('HGETALL', workers)
for at = 1, #all, 2 do
    local till, reported = string.match(all[at + 1], '^(%d+) (.*)$')
    if tonumber(till) <= now then
        redis.call('HDEL', workers, all[at])
    elseif all[at] ~= worker then
        others[#others + 1] = reported
    end
end
local version = redis.call('GET', quota_version) or '0'
return {version, others, version ~= known and redis.call('HGETALL', quotas)}
