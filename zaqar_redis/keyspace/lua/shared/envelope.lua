-- The fixed head of a message envelope; keyspace/envelope.py has the layout.
--#include pack

local function time_at(envelope, first)
    if struct then
        return (struct.unpack('>I8', envelope, first))
    end
    local value = 0
    for byte = first, first + 7 do
        value = value * 256 + string.byte(envelope, byte)
    end
    return value
end

local function created_of(envelope)
    return time_at(envelope, 3)
end

local function expiry_of(envelope)
    return time_at(envelope, 12)
end

local function client_of(envelope)
    return string.sub(envelope, 34, 49)
end

local function prolonged(envelope, expires, ttl)
    return string.sub(envelope, 1, 10) .. pack('>BI8BI4', 207, expires, 206, ttl)
        .. string.sub(envelope, 25)
end
