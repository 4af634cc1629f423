-- The bytes of a stored message, on average of a sample; nil: there is none.
local function sampled_size()
    local SAMPLE = 32  -- envelopes: some microseconds; drawn anew each time, so errors do not stay
    local sampled, size = redis.call('HRANDFIELD', bodies, SAMPLE) or {}, 0
    for _, rank in ipairs(sampled) do
        size = size + redis.call('HSTRLEN', bodies, rank)
    end
    return #sampled > 0 and size / #sampled or nil
end
