-- A stored subscription: ttl in seconds and whether it is confirmed, its options as
-- JSON, its subscriber; by lines.
local function subscriber_of(record)
    return string.match(record, '^[^\n]*\n[^\n]*\n(.*)$')
end
