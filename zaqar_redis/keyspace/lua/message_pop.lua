-- Take the oldest claimable messages out of the queue for good.
--
-- Returns {now, epoch or false, ask again (1) or not, ms until any may be
-- claimable or false, {rank, envelope, hold; of each}, {the same of the dead
-- letters}, dead-letter queue, their ttl}.
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
local limit             = tonumber(ARGV[2])  -- messages at most
local dead_letter_claim = ARGV[3]            -- id to hold dead letters with
--#include move_lock
--#include now
--#include envelope
--#include forget
--#include settle
--#include hold

local popped, dead, ranks = {}, {}, {}
local at = 0
--#include take_ready
local function keep(rank, envelope, count)
    at = at + 1
    ranks[at] = rank
    popped[3 * at - 2], popped[3 * at - 1] = rank, envelope
    popped[3 * at] = string.rep('0', 32) .. count
end

local known = redis.call('HMGET', queue, 'epoch', 'dead_queue', 'dead_ttl')
if not known[1] then
    return {now, false}
end
local _, unsettled = settle()
if unsettled then  -- older messages may have to become ready first
    return {now, known[1], 1, false, {}, {}, known[2], known[3]}
end
local taken, left = take(keep, dead_letter)
if #dead > 0 then
    local soonest, noted = now + DEAD_LETTER_HOLD_MS, redis.call('HGET', queue, 'due')
--#include note_sweep
end
for from = 1, #ranks, SETTLE do
    forget({unpack(ranks, from, math.min(from + SETTLE - 1, #ranks))})
end
return {now, known[1], taken == 0 and left and 1 or 0, taken == 0 and next_visible_in(), popped,
    dead, known[2], known[3]}
