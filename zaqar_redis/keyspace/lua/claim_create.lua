-- Claim the oldest claimable messages: nobody else gets them until the claim ends.
--
-- Returns {now, epoch or false, ask again (1) or not, ms until any may be
-- claimable or false, {rank, envelope, hold; of each}, {the same of the dead
-- letters}, dead-letter queue, their ttl}. Without messages no claim is created.
local queue             = KEYS[1]            -- hash: the queue itself
local messages          = KEYS[2]            -- zset: every message by rank
local bodies            = KEYS[3]            -- hash: rank -> envelope
local ready             = KEYS[4]            -- zset: claimable by rank
local claimed           = KEYS[5]            -- zset: held, by the end of the hold
local delayed           = KEYS[6]            -- zset: delayed, by the end of the delay
local expiry            = KEYS[7]            -- zset: every message by expiry
local holds             = KEYS[8]            -- hash: rank -> last claim and count
local claims            = KEYS[9]            -- hash: claim -> ttl and ranks
local leases            = KEYS[10]           -- zset: claims by the end of their lease
local move_lock         = KEYS[11]           -- string: the move lock, while the queue moves
local sweep_index       = KEYS[12]           -- zset: queues of the slot by their next sweep
local now               = tonumber(ARGV[1])  -- ms; 0: the time of Redis
local claim             = ARGV[2]            -- id of the new claim, 32 characters
local ttl               = tonumber(ARGV[3])  -- seconds
local grace             = tonumber(ARGV[4])  -- seconds
local limit             = tonumber(ARGV[5])  -- messages at most
local dead_letter_claim = ARGV[6]            -- id to hold dead letters with
--#include move_lock
--#include now
--#include envelope
--#include forget
--#include settle
--#include hold

local found, dead, ranks, leased, holders = {}, {}, {}, {}, {}
local at = 0
local ends = now + ttl * 1000
local lease = string.format('%.0f', ends)  -- as text, once: Redis is slow to write numbers
--#include take_ready
local function keep(rank, envelope, count)
    if expiry_of(envelope) < ends then
        -- A claimed message must outlive its claim by the grace.
        envelope = prolonged(envelope, ends + grace * 1000, ttl + grace)
        redis.call('HSET', bodies, rank, envelope)
        redis.call('ZADD', expiry, ends + grace * 1000, rank)
    end
    local hold = claim .. count
    at = at + 1
    ranks[at] = rank
    leased[2 * at - 1], leased[2 * at] = lease, rank
    holders[2 * at - 1], holders[2 * at] = rank, hold
    found[3 * at - 2], found[3 * at - 1], found[3 * at] = rank, envelope, hold
end

local known = redis.call('HMGET', queue, 'epoch', 'dead_queue', 'dead_ttl', 'due')
if not known[1] then
    return {now, false}
end
local _, unsettled = settle()
if unsettled then  -- older messages may have to become ready first
    return {now, known[1], 1, false, {}, {}, known[2], known[3]}
end
local taken, left = take(keep, dead_letter)
if taken > 0 then
    redis.call('ZADD', claimed, unpack(leased))
    redis.call('HSET', holds, unpack(holders))
    redis.call('ZADD', leases, lease, claim)
    redis.call('HSET', claims, claim, ttl .. ' ' .. table.concat(ranks, ' '))
end
if taken > 0 or #dead > 0 then
    local soonest = math.min(taken > 0 and ends or math.huge,
        #dead > 0 and now + DEAD_LETTER_HOLD_MS or math.huge)
    local noted = known[4]
--#include note_sweep
end
return {now, known[1], taken == 0 and left and 1 or 0, taken == 0 and next_visible_in(), found,
    dead, known[2], known[3]}
