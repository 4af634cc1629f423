-- Delete a schedule.
--#keys schedule schedules due_schedules
--#args entry name

redis.call('DEL', schedule)
redis.call('ZREM', schedules, name)
redis.call('ZREM', due_schedules, entry)
