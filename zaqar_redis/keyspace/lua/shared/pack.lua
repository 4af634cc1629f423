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
