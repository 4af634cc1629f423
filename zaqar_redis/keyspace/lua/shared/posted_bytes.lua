-- Bytes of the messages that append.lua is to append: of their envelopes.
local HEAD = 29  -- what it puts in front of the rest of each
local bytes = 0
for place = skip + 3, #values, 3 do
    bytes = bytes + HEAD + #values[place]
end
