-- Read how a job goes; false when there is none.
local jobs = KEYS[1]  -- hash: name -> how the job goes
local name = ARGV[1]  -- of the job

return redis.call('HGET', jobs, name)
