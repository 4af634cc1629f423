-- Replace the alarms about queues, of all projects.
--
-- Returns how many projects have some.
--#keys queue_alarms
--#args period:number rest...
-- period: ms for which they are kept; rest: project, its alarms; of each
redis.call('UNLINK', queue_alarms)
if #ARGV < rest then
    return 0
end
redis.call('HSET', queue_alarms, unpack(ARGV, rest))
redis.call('PEXPIRE', queue_alarms, period)
return (#ARGV - rest + 1) / 2
