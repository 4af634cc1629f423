-- Append `values`, in the order given, under the next ranks, and announce them on the feed.
-- After the first `skip` values come: ttl or -1, delay or -1 or the time of delivery in ms times
-- -1, rest of the envelope; of each.
-- Live watchers subscribe to the feed too: when it has no subscribers, the messages themselves
-- are not published. `verbs` keep the order of the queue, if it has one.
-- No function: making one costs a twentieth of the post of a single message.
local BATCH = 1000  -- messages a command: Lua cannot unpack more than about 8000 values
local count = (#values - skip) / 3
local first = redis.call('HINCRBY', queue, 'rank', count) - count + 1
local has_subscribers = redis.call(publish, queue .. ':feed', count) > 0
local usual_ttl = tonumber(known[2]) or default_ttl
local usual_delay = tonumber(known[3]) or 0
local ttl, delay, head, expires
local latest = 0  -- expiry
local soonest, noted = nil, known[6]  -- for note_sweep.lua, which follows
for from = 1, count, BATCH do
    local by_rank, by_expiry, envelopes = {}, {}, {}
    local at_once = verbs and {}  -- nil: the same as `by_rank`, as without delays it is
    for place = from, math.min(from + BATCH - 1, count) do
        local last = skip + 3 * place
        local own_ttl, own_delay = tonumber(values[last - 2]), tonumber(values[last - 1])
        if own_ttl < 0 then
            own_ttl = usual_ttl
        end
        if own_delay < -1 then  -- a time, at which its ttl begins
            own_delay = math.max(0, math.ceil((-own_delay - now) / 1000))
            own_ttl = own_ttl + own_delay
        elseif own_delay < 0 then
            own_delay = usual_delay
        end
        if own_ttl ~= ttl or own_delay ~= delay then
            ttl, delay = own_ttl, own_delay
            local ends = now + ttl * 1000
            head = pack('>BBI8BI8BI4BI4', 153, 207, now, 207, ends, 206, ttl, 206, delay)
            expires = string.format('%.0f', ends)
            latest = math.max(latest, ends)
            if delay > 0 and delay < ttl then
                ends = now + delay * 1000
            end
            if not soonest or ends < soonest then
                soonest = ends
            end
        end
        -- As text: Redis takes its time to write a number out, and would do it seven times.
        local rank = string.format('%.0f', first + place - 1)
        local at = 2 * (place - from) + 1
        by_rank[at], by_rank[at + 1] = rank, rank
        by_expiry[at], by_expiry[at + 1] = expires, rank
        envelopes[at], envelopes[at + 1] = rank, head .. values[last]
        local score = verbs and verbs.add(rank, values[last], delay > 0) or rank
        if delay > 0 then
            redis.call('ZADD', delayed, now + delay * 1000, rank)
            at_once = at_once or {unpack(by_rank, 1, at - 1)}
        elseif at_once and score ~= '' then
            at_once[#at_once + 1] = score
            at_once[#at_once + 1] = rank
        end
    end
    redis.call('ZADD', messages, unpack(by_rank))
    redis.call('ZADD', expiry, unpack(by_expiry))
    redis.call('HSET', bodies, unpack(envelopes))
    at_once = at_once or by_rank
    if #at_once > 0 then
        redis.call('ZADD', ready, unpack(at_once))
    end
    if verbs then
        soonest = math.min(soonest, verbs.added() or soonest)
    end
    if has_subscribers or known[7] then
        local parts = {string.format('%s:%.0f:', known[1] or epoch, first + from - 1)}
        for place = 2, #envelopes, 2 do
            parts[#parts + 1] = envelopes[place]
        end
        local posted = table.concat(parts)
        if has_subscribers then
            redis.call(publish, queue .. ':live', posted)
        end
        if known[7] then
            redis.call('XADD', deliveries, '*', string.format('%.0f', latest), posted)
        end
    end
end
-- A notifier that has found no more entries is told of this one, whatever is left of those before
-- it: its last step has noted the end of its lease (delivery_step.lua). One that reads goes on.
if known[7] then
    local name = string.sub(queue, 5, -2)
    local is_noted = redis.call('ZADD', delivery_index, 'LT', 'CH', now, name) == 1
    if is_noted or redis.call('XLEN', deliveries) == math.ceil(count / BATCH) then
        redis.call('PUBLISH', 'zr:deliveries', name)
    end
end
