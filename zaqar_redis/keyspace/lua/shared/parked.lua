-- Messages that have expired and become dead letters are parked until the sweeper has moved them:
-- not in `expiry`, and in `claimed` behind all claims, at PARKED, or at that and the time of the
-- last attempt.
local PARKED = 200000000000000  -- ms: of the year 8307, when no claim ends
