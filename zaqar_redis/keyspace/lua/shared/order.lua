-- The order in which messages are claimed, where it is not that of their ranks. The queue's field
-- `order` says how many ranks a step of priority is worth, and whether groups are ordered or take
-- turns; the hash `order` has priority and group of each message that has one, if there are groups.
-- Of a group only the first message that may be claimed is in `ready`: `groups` has those that are
-- held or hold the group up ('h') and those that wait ('w'), by group, state and rank.
local ordering  -- the queue's field; false: it has none; nil: it was not read yet
local counted  -- read with it: whether the queue counts its bytes, as forget.lua does
local opened = 0  -- how many messages can be claimed since others have left their groups
local resumes = math.huge  -- when the first of the groups goes on that rest since, ms
local order_verbs  -- made when they are needed: making functions takes time

local function read_order()
    if ordering == nil then
        ordering, counted = unpack(redis.call('HMGET', queue, 'order', 'bytes'))
    end
end

-- Whether something has to be done for messages that are claimed, and for those that were.
local function has_groups()
    return ordering and not string.find(ordering, '^%S+ none')
end

local function has_places()
    return has_groups() and not string.find(ordering, '^%S+ fair 0 ')
end

-- The verbs, or nil: messages are claimed by rank, and there is nothing to do.
local function ordered()
    read_order()
    if ordering and not order_verbs then
--#include order_verbs
        if mode ~= 'none' then
--#include order_groups
            if mode == 'fair' then
--#include order_fair
            else
--#include order_ordered
            end
        end
        order_verbs = verbs
    end
    return order_verbs
end
