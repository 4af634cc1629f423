-- A stored subscription: ttl in seconds, whether it is confirmed, and 1 if it is paused (older
-- versions know no third field); its options as JSON, its subscriber; by lines.
local function subscriber_of(record)
    return string.match(record, '^[^\n]*\n[^\n]*\n(.*)$')
end
