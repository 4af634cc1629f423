-- Records are forgotten all at once: `records` holds the new ones, `records_old` those of the
-- window before. Each also has, under names that no digest has, `since`: when its first one
-- was made, and `till`: when the last one is forgotten; ms.
-- What is on record under a name; nil: nothing, or nothing any more.
local function recorded(name)
    for _, generation in ipairs({records, records_old}) do
        local kept = redis.call('HMGET', generation, name, 'till')
        if kept[1] and tonumber(kept[2] or 0) > now then
            return kept[1]
        end
    end
end
