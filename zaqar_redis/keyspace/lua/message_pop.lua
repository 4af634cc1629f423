-- Take the oldest claimable messages out of the queue for good.
--
-- Returns the same as claim_create.lua.
--#keys queue @message claims leases move_lock sweep_index
--#args now:number limit:number dead_letter_claim
--#pubsub publish
-- dead_letter_claim: id to hold dead letters with
--#include move_lock now settle

local found, ranks = {}, {}
local at = 0
local nobody, first_now = string.rep('0', 32), string.format(' %.0f', now)
local function keep(rank, envelope, count, before)
    at = at + 1
    ranks[at] = rank
    found[3 * at - 2], found[3 * at - 1] = rank, envelope
    found[3 * at] = nobody .. count .. (before and string.match(before, ' .*$', 33) or first_now)
end
--#include take_ready

for from = 1, #ranks, SETTLE do
    forget({unpack(ranks, from, math.min(from + SETTLE - 1, #ranks))})
end
--#include return_taken
