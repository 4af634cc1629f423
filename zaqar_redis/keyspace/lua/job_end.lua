-- Delete a job.
local jobs = KEYS[1]  -- hash: name -> how the job goes
local name = ARGV[1]  -- of the job

return redis.call('HDEL', jobs, name)
