-- Records expire all at once: `records` holds the new ones, `records_old` those of the
-- window before. Each also has, under names that no digest has, `since`: when its first one
-- was created, and `till`: when the last one expires; ms.
-- Returns the record of a name, or nil; and the two times of `records`, for store_record().
local function lookup_record(name)
    local new = redis.call('HMGET', records, name, 'since', 'till')
    local since, till = tonumber(new[2]), tonumber(new[3])
    if new[1] and (till or 0) > now then
        return new[1], since, till
    end
    local old = redis.call('HMGET', records_old, name, 'till')
    return old[1] and tonumber(old[2] or 0) > now and old[1] or nil, since, till
end
