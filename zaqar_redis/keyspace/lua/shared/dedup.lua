-- Keep those messages in `values` that were not posted within the dedup window; as for append.lua.
-- `named` gets their records (name and record of each), `duplicates` the place in the request,
-- from 0, and the rank of each other one.
local SIZE = 16  -- of a digest
local NONE = string.rep('\0', SIZE)
local by_content = string.sub(dedup_rule or '', -1) == '1'
if by_content and dedups == '' then
    return {'unidentified'}
elseif dedups ~= '' then
--#include lookup_record
    local given, before = values, skip
    values, skip, named = {}, 0, {}
    local last_rank, new, repeated = redis.call('HGET', queue, 'rank') or 0, {}, {}
    for place = 0, #dedups / SIZE - 1 do
        local name = string.sub(dedups, place * SIZE + 1, (place + 1) * SIZE)
        local rank
        if name ~= NONE then
            local record
            record, since, till = lookup_record(name)
            local first, posted = string.match(record or '', '^(%d+) (%d+)$')
            rank = new[name] or first and posted + dedup_window > now and first
        elseif by_content then
            return {'unidentified'}
        end
        if rank then
            repeated[#repeated + 1] = place .. ' ' .. rank
        else
            for at = before + 3 * place + 1, before + 3 * place + 3 do
                values[#values + 1] = given[at]
            end
            if name ~= NONE then
                new[name] = string.format('%.0f', last_rank + #values / 3)
                named[#named + 1] = name
                named[#named + 1] = string.format('%s %.0f', new[name], now)
            end
        end
    end
    duplicates = table.concat(repeated, ' ')
end
