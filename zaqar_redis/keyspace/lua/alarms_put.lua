-- Replace the alarms about queues, of all projects, and the largest queues of all stores.
--
-- Returns how many projects have alarms.
--#keys queue_alarms largest_queues
--#args largest period:number rest...
-- largest: as JSON; period: ms for which all is kept; rest: project, its alarms; of each

redis.call('UNLINK', queue_alarms)  -- first: a full Redis lets a script go on that has written
redis.call('SET', largest_queues, largest, 'PX', period)
if #ARGV < rest then
    return 0
end
redis.call('HSET', queue_alarms, unpack(ARGV, rest))
redis.call('PEXPIRE', queue_alarms, period)
return (#ARGV - rest + 1) / 2
