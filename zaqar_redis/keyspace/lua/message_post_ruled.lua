-- Append messages to any queue, in the order given, under the next ranks; or create it.
--
-- Returns {'missing'} when there is no queue and no epoch to create one with,
-- {'large', limit}, {'full', limit, how many, of what}, {'paused'},
-- {'plain'} when the queue wants bodies encrypted, {'unidentified'} when it goes by digests of
-- bodies and some are missing, {'reused'} when the idempotency key came with other content, else
-- {'posted' or 'replayed', epoch, first rank, how many, duplicates, not yet listed}.
--#flags deny-oom
--#keys @append @room idempotency idempotency_old
--#args now:number epoch size default_ttl:number encrypted:flag idempotency_key fingerprint
--#args window:number dedups rest...
--#pubsub publish
-- epoch: of a queue to create, or ''
-- size: bytes of the request
-- idempotency_key: digest, or ''
-- window: ms to store the key, if the queue sets none
-- dedups: digest of what identifies it, or zeros, of each message; '': none have one; '-': what
--     identifies messages does not matter
-- rest: ttl or -1, delay or -1, rest of the envelope; for each message
--#include move_lock now pack queue_fields

local records, records_old = idempotency, idempotency_old
local since, till
if idempotency_key ~= '' and known[1] then
--#include lookup_record
    local stored
    stored, since, till = lookup_record(idempotency_key)
    local first, number, print = string.match(stored or '', '^(%d+) (%d+) (.*)$')
    if first and string.sub(print .. ' ', 1, #fingerprint + 1) ~= fingerprint .. ' ' then
        return {'reused'}
    elseif first then
        local duplicates = string.sub(print, #fingerprint + 2)
        return {'replayed', known[1], tonumber(first), tonumber(number), duplicates, 0}
    end
end
--#include admit
local values, skip, duplicates, named = ARGV, rest - 1, ''
local dedup_rule = known[11]
local dedup_window = dedup_rule and tonumber(string.match(dedup_rule, '^%d+')) or 300000  -- ms
if dedups ~= '-' and (dedups ~= '' or dedup_rule) then
--#include dedup
    if #values == skip then  -- all are duplicates
        local first, count, soonest, noted = 0, 0, tonumber(known[6] or now), known[6]
--#include store_post
        return {'posted', epoch, first, count, duplicates, unlisted}
    end
end
--#include make_room append_ordered trim store_post
return {'posted', epoch, first, count, duplicates, unlisted}
