-- The fixed head of a message envelope; keyspace/envelope.py has the layout.
local function uint(value, width)
    local bytes = {}
    for place = width, 1, -1 do
        bytes[place] = value % 256
        value = math.floor(value / 256)
    end
    return string.char(unpack(bytes))
end

local function expiry_of(envelope)
    local a, b, c, d, e, f, g, h = string.byte(envelope, 12, 19)
    return (((((((a * 256 + b) * 256 + c) * 256 + d) * 256 + e) * 256 + f) * 256 + g) * 256) + h
end

local function ttl_of(envelope)
    local a, b, c, d = string.byte(envelope, 21, 24)
    return ((a * 256 + b) * 256 + c) * 256 + d
end

local function client_of(envelope)
    return string.sub(envelope, 34, 49)
end

local function prolonged(envelope, expires, ttl)
    return string.sub(envelope, 1, 11) .. uint(expires, 8) .. string.char(206) .. uint(ttl, 4)
        .. string.sub(envelope, 25)
end
