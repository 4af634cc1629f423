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
local now      = tonumber(ARGV[1])  -- ms; 0: the time of Redis
local policy   = ARGV[2]            -- 'free': unless claimed; 'any'; 'held': by these claims
local owners   = ARGV[3]            -- ids of claims, 32 characters each
-- ARGV[4...]: epoch and rank of each message
--#include now
--#include envelope
--#include forget
--#include hold

local epoch = redis.call('HGET', queue, 'epoch')
local lapsed = policy == 'held'
for from = 1, #owners, 32 do
    local lease = tonumber(redis.call('ZSCORE', leases, string.sub(owners, from, from + 31)) or 0)
    lapsed = lapsed and lease <= now
end
local ranks = {}
for place = 4, #ARGV, 2 do
    local rank = ARGV[place + 1]
    local envelope = ARGV[place] == epoch and redis.call('HGET', bodies, rank)
    if envelope and expiry_of(envelope) > now then
        local held = tonumber(redis.call('ZSCORE', claimed, rank) or 0) > now
        if policy == 'free' and held then
            return {'claimed', rank}
        elseif policy == 'held' then
            if lapsed then
                return {'lapsed'}
            elseif not held then
                return {'unheld', rank}
            end
            local owner, mine = holder_of(redis.call('HGET', holds, rank)), false
            for from = 1, #owners, 32 do
                mine = mine or string.sub(owners, from, from + 31) == owner
            end
            if not mine then
                return {'other', rank}
            end
        end
        ranks[#ranks + 1] = rank
    end
end
return {'deleted', forget(ranks)}
