-- A stored pool: flavor, '1' when it is draining, canonical URI, record; by lines.
local function parts_of(stored)
    return string.match(stored, '^([^\n]*)\n([^\n]*)\n([^\n]*)\n(.*)$')
end
