-- A ledger entry is '<epoch> <digest> <batch> <chunk>', of the last chunk that
-- was appended.
-- What `entry` says in this epoch of the queue; nil when there is no such entry.
local function last_chunk(epoch)
    local stored = redis.call('HGET', ledger, entry)
    if stored and tonumber(redis.call('ZSCORE', ledger_ends, entry) or 0) > now then
        local of, digest, batch, chunk = string.match(stored, '^(%x+) (%x+) (%d+) (%d+)$')
        if of == epoch then
            return tonumber(batch), tonumber(chunk), digest
        end
    end
end
