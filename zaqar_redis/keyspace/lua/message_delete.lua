-- Delete messages, all or none, if the caller may.
--
-- Returns {'deleted', how many}; {'claimed', rank} when one is held and no claim
-- was named; {'unheld', rank} when a claim was named and one is not held;
-- {'lapsed'} when the claim named is not alive; {'other', rank} when another
-- claim holds one.
local queue    = KEYS[1]            -- hash: the queue itself
local messages = KEYS[2]            -- zset: every message by rank
local bodies   = KEYS[3]            -- hash: rank -> envelope
local ready    = KEYS[4]            -- zset: claimable by rank
local claimed  = KEYS[5]            -- zset: held, by the end of the hold
local delayed  = KEYS[6]            -- zset: delayed, by the end of the delay
local expiry   = KEYS[7]            -- zset: every message by expiry
local holds    = KEYS[8]            -- hash: rank -> last claim and count
local leases   = KEYS[9]            -- zset: claims by the end of their lease
local gate     = KEYS[10]           -- string: keeps everybody out while it is there
local now      = tonumber(ARGV[1])  -- ms; 0: the time of Redis
local policy   = ARGV[2]            -- 'free': unless claimed; 'any'; 'held': by these claims
local owners   = ARGV[3]            -- ids of claims, 32 characters each
-- ARGV[4...]: epoch and rank of each message
--#include gate
--#include now
--#include forget
--#include hold

local epoch = redis.call('HGET', queue, 'epoch')
local ranks = {}
for place = 4, #ARGV, 2 do
    -- An id of another queue, or of an earlier life of this one, has another epoch.
    if ARGV[place] == epoch then
        ranks[#ranks + 1] = ARGV[place + 1]
    end
end
if #ranks == 0 or policy == 'any' then
    return {'deleted', forget(ranks)}
end

local mine, lapsed = {}, true
for from = 1, #owners, 32 do
    local owner = string.sub(owners, from, from + 31)
    mine[owner] = true
    lapsed = lapsed and tonumber(redis.call('ZSCORE', leases, owner) or 0) <= now
end
local expires = redis.call('ZMSCORE', expiry, unpack(ranks))
local held = redis.call('ZMSCORE', claimed, unpack(ranks))
local gone = {}
for place, rank in ipairs(ranks) do
    if tonumber(expires[place] or 0) > now then
        local is_held = tonumber(held[place] or 0) > now
        if policy == 'free' and is_held then
            return {'claimed', rank}
        elseif policy == 'held' and lapsed then
            return {'lapsed'}
        elseif policy == 'held' and not is_held then
            return {'unheld', rank}
        elseif policy == 'held' and not mine[holder_of(redis.call('HGET', holds, rank))] then
            return {'other', rank}
        end
        gone[#gone + 1] = rank
    end
end
return {'deleted', forget(gone)}
