-- Store `named`, and the answer to the idempotency key, if there is one.
if named and #named > 0 or idempotency_key ~= '' then
    local own = redis.call('HGET', queue, 'window')
    window = own and own * 1000 or window
    local longest = math.max(window, dedup_window)
    if named then
        window = longest
    end
    named = named or {}
    if idempotency_key ~= '' then
        local answer = string.format('%.0f %.0f ', first, count) .. fingerprint
        named[#named + 1] = idempotency_key
        named[#named + 1] = duplicates == '' and answer or answer .. ' ' .. duplicates
    end
--#include store_record
    soonest = math.min(soonest, store_record(named, since, till, longest))
end
--#include note_sweep
