-- Records expire all at once: `records` holds the new ones, `records_old` those of the
-- window before. Each also has, under names that no digest has, `since`: when its first one
-- was created, and `till`: when the last one expires; ms.
-- Returns the record of a name; or nil, and the two times of `records`, for store_record().
local function lookup_record(name)
    local new = redis.call('HMGET', records, name, 'since', 'till')
    if new[1] and tonumber(new[3] or 0) > now then
        return new[1]
    end
    local old = redis.call('HMGET', records_old, name, 'till')
    if old[1] and tonumber(old[2] or 0) > now then
        return old[1]
    end
    return nil, tonumber(new[2]), tonumber(new[3])
end
