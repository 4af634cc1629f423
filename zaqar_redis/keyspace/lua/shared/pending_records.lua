-- Read pending deliveries, as many as fit into one answer and at least one: {id, record or false;
-- of each}.
local BYTES = 1024 * 1024  -- a millisecond or two of Redis' time
local function pending_records(ids)
    local found, bytes = {}, 0
    for place, id in ipairs(ids) do
        local record = redis.call('HGET', pending, id)
        found[2 * place - 1] = id
        found[2 * place] = record
        bytes = bytes + (record and #record or 0)
        if bytes >= BYTES then
            break
        end
    end
    return found
end
