-- Whether the head of an envelope is one: msgpack's marks stand where they should.
--#include envelope

local function is_valid_envelope(envelope)
    local array, created = string.byte(envelope, 1, 2)
    return #envelope >= 53 and array == 153 and created == 207
        and string.byte(envelope, 11) == 207 and string.byte(envelope, 20) == 206
        and string.byte(envelope, 25) == 206
end
