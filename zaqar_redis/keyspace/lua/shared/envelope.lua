-- The fixed head of a message envelope; keyspace/envelope.py has the layout.
-- fakeredis has no struct: only there are numbers packed in Lua.
local pack = struct and struct.pack or function(widths, ...)
    local text, place = '', 0
    for width in string.gmatch(widths, '%a%d?') do
        place = place + 1
        local value, bytes = select(place, ...), {}
        for byte = tonumber(string.sub(width, 2)) or 1, 1, -1 do
            bytes[byte] = value % 256
            value = math.floor(value / 256)
        end
        text = text .. string.char(unpack(bytes))
    end
    return text
end

local function head_of(created, expires, ttl, delay)
    return pack('>BBI8BI8BI4BI4', 153, 207, created, 207, expires, 206, ttl, 206, delay)
end

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
