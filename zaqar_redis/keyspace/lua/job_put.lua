-- Note how a job goes.
local jobs   = KEYS[1]  -- hash: name -> how the job goes
local name   = ARGV[1]  -- of the job
local report = ARGV[2]  -- JSON object

return redis.call('HSET', jobs, name, report)
