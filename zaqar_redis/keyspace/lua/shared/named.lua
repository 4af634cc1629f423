-- Of these ranks those that are named, by epoch and rank of each, from `first` on; all of them if
-- nothing is.
local function named(ranks, epoch, names, first)
    if not names[first] then
        return ranks
    end
    local held, chosen = {}, {}
    for _, rank in ipairs(ranks) do
        held[rank] = true
    end
    for place = first, #names, 2 do
        local rank = names[place + 1]
        if names[place] == epoch and held[rank] then
            held[rank] = nil  -- named twice, it is chosen once
            chosen[#chosen + 1] = rank
        end
    end
    return chosen
end
