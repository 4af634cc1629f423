-- The record of a claim: its TTL, the Client-ID of the request that created it if there was one,
-- and the ranks of its messages; separated by spaces. The client has neither digits nor spaces
-- (storage/redis/identity.py writes it), so that no pattern takes it for a rank.
local function claim_record(ttl, client, ranks)
    local by = client == '' and '' or client .. ' '
    return ttl .. ' ' .. by .. table.concat(ranks, ' ')
end

local function client_of_claim(record)
    return record and string.match(record, '^%d+ ([^%d ]+)') or ''
end
