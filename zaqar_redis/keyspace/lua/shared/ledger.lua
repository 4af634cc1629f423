-- A ledger entry is '<epoch> <digest> <batch> <chunk>', of the last chunk that
-- came in.
-- What `entry` says in this life of the queue; nil when it says nothing.
local function written(life)
    local kept = redis.call('HGET', ledger, entry)
    if kept and tonumber(redis.call('ZSCORE', ledger_ends, entry) or 0) > now then
        local of, digest, batch, chunk = string.match(kept, '^(%x+) (%x+) (%d+) (%d+)$')
        if of == life then
            return tonumber(batch), tonumber(chunk), digest
        end
    end
end
