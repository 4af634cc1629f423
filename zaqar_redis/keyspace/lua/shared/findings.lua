-- What a check finds, counted: flat pairs of what and how often.
local counted = {}

local function note(what)
    counted[what] = (counted[what] or 0) + 1
end

local function findings()
    local flat = {}
    for what, times in pairs(counted) do
        flat[#flat + 1] = what
        flat[#flat + 1] = times
    end
    return flat
end
