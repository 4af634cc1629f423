-- Messages that have expired and become dead letters are parked in `claimed`, behind all claims,
-- until the sweeper has moved them: PARKED, or that and the time of the last attempt.
local PARKED = 200000000000000  -- ms: of the year 8307, when no claim ends
