-- Read messages of any state or of one, in rank order, and change nothing: what has expired or
-- ended, and was not settled yet, shows by its times.
--
-- Returns {now, epoch, the rank scanned last or false when the end was reached, then rank,
-- envelope, hold or false, state, end of that state or false, client of the claim that holds it or
-- ''; of each}; {now, false} when there is no such queue.
--#keys queue messages bodies claimed delayed expiry holds claims move_lock
--#args now:number wanted after:number limit:number
-- wanted: free, claimed, delayed, expired; '': any
-- after: rank to go on behind
--#include move_lock now hold claim_record parked

local SCAN = 500  -- messages looked at in one call; the caller goes on behind them
local BYTES = 1000000  -- of envelopes, about: the size of an answer
local clients = {}  -- by claim
local function claimed_by(claim)
    if claim and not clients[claim] then
        clients[claim] = client_of_claim(redis.call('HGET', claims, claim))
    end
    return clients[claim] or ''
end

local epoch = redis.call('HGET', queue, 'epoch')
if not epoch then
    return {now, false}
end
local ranks, complete = nil, true
local waiting = ({claimed = claimed, delayed = delayed, expired = expiry})[wanted]
if waiting then
    -- Mostly few have this state: then there is no need to look at all messages.
    local from, to = '(' .. string.format('%.0f', now), '(' .. string.format('%.0f', PARKED)
    local few
    if wanted == 'expired' then
        few = redis.call('ZRANGEBYSCORE', waiting, '-inf', now, 'LIMIT', 0, SCAN + 1)
        local limit = SCAN + 1 - #few
        for _, rank in ipairs(redis.call('ZRANGEBYSCORE', claimed, PARKED, '+inf', 'LIMIT', 0,
            limit)) do
            few[#few + 1] = rank
        end
    else
        few = redis.call('ZRANGEBYSCORE', waiting, from, to, 'LIMIT', 0, SCAN + 1)
    end
    if #few <= SCAN then
        ranks = {}
        for _, rank in ipairs(few) do
            if tonumber(rank) > after then
                ranks[#ranks + 1] = rank
            end
        end
        table.sort(ranks, function(one, other) return tonumber(one) < tonumber(other) end)
    end
end
if not ranks then
    local behind = '(' .. string.format('%.0f', after)
    ranks = redis.call('ZRANGEBYSCORE', messages, behind, '+inf', 'LIMIT', 0, SCAN)
    complete = #ranks < SCAN
end
local page = {now, epoch, false}
if #ranks == 0 then
    return page
end
local expires = redis.call('ZMSCORE', expiry, unpack(ranks))
local held = redis.call('ZMSCORE', claimed, unpack(ranks))
local later = redis.call('ZMSCORE', delayed, unpack(ranks))
local found, size = 0, 0
for place, rank in ipairs(ranks) do
    local state, ends = 'free', false
    if tonumber(expires[place] or 0) <= now then
        state = 'expired'
    elseif tonumber(held[place] or 0) > now then
        state, ends = 'claimed', held[place]
    elseif tonumber(later[place] or 0) > now then
        state, ends = 'delayed', later[place]
    end
    if wanted == '' or wanted == state then
        local envelope = redis.call('HGET', bodies, rank)
        page[#page + 1] = rank
        page[#page + 1] = envelope
        local hold = redis.call('HGET', holds, rank)
        page[#page + 1] = hold
        page[#page + 1] = state
        page[#page + 1] = ends
        page[#page + 1] = claimed_by(state == 'claimed' and holder_of(hold))
        found, size = found + 1, size + #envelope
        if found == limit or size >= BYTES then
            page[3] = (place < #ranks or not complete) and rank
            return page
        end
    end
end
page[3] = not complete and ranks[#ranks]
return page
