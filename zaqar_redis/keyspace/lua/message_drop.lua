-- Delete the messages that an internal claim holds: dead letters already moved.
local messages          = KEYS[1]  -- zset: every message by rank
local bodies            = KEYS[2]  -- hash: rank -> envelope
local ready             = KEYS[3]  -- zset: claimable by rank
local claimed           = KEYS[4]  -- zset: held, by the end of the hold
local delayed           = KEYS[5]  -- zset: delayed, by the end of the delay
local expiry            = KEYS[6]  -- zset: every message by expiry
local holds             = KEYS[7]  -- hash: rank -> last claim and count
local move_lock         = KEYS[8]  -- string: the move lock, while the queue moves
local dead_letter_claim = ARGV[1]  -- the claim
-- ARGV[2...]: ranks
--#include move_lock
local now = 0             -- nothing here goes by time
--#include forget
--#include hold

local ranks = {}
for place = 2, #ARGV do
    if holder_of(redis.call('HGET', holds, ARGV[place])) == dead_letter_claim then
        ranks[#ranks + 1] = ARGV[place]
    end
end
return forget(ranks)
