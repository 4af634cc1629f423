-- The verbs of a queue whose groups take turns: `ready` has the first message that waits in each of
-- them, unless as many of the group are held as may be. Its score is the group's turn. The queue's
-- field `turn` is that of the message that was taken last, and a group of the weight w has its next
-- turn 1/w behind it (self-clocked fair queueing). So a group that was empty gains nothing by that,
-- and nothing of it has to be kept. `groups` has a mark of each group that may have no turn. With a
-- rate a group rests behind each message that is taken ('r', and by time, to forget it): then its
-- next one is delayed until that ends.
-- How many of a group may be held, 0: any number, and nobody counts them; ms of a rest, 0: there is
-- none, less than one: there was one when the messages were posted; and where the weights begin.
local most, rest, weights = string.match(ordering, '^%S+ fair (%d+) (%S+)\n()')
most, rest = tonumber(most), tonumber(rest)
keeps_places = most > 0
local turn  -- as stored; nil: it was not read yet
local before = {}  -- by group: its message in `ready`, and the score of that

local rests_until, note_rest, forget_rest, forget_rests, begin_rest
if rest > 0 then
--#include order_rests
end

-- How far behind one turn of a group its next one is.
local function step_of(group)
    if weights > #ordering then
        return 1
    end
    local _, at = string.find(ordering, '\n=' .. group .. '\n', 1, true)
    return 1 / (at and string.match(ordering, '^%d+', at + 1) or 1)
end

local function as_text(score)
    return string.format('%.17g', score)
end

local function held_of(group)
    return keeps_places and redis.call('ZLEXCOUNT', groups, '[' .. group .. '\0h',
        '(' .. group .. '\0i') or -math.huge
end

local function waiting(group, from, number)
    return redis.call('ZRANGEBYLEX', groups, '[' .. group .. '\0w', '(' .. group .. '\1', 'LIMIT',
        from, number)
end

-- Of a group that waits until one of its messages goes.
local function mark_of(group)
    return '\1' .. group
end

function next_of(group)
    local first = waiting(group, 0, 1)[1]
    if first and held_of(group) >= most then
        return nil, true
    end
    return first and rank_in(first, group) or nil
end

function close(group)
    local first = waiting(group, 0, 1)[1]
    local rank = first and rank_in(first, group)
    local score = rank and redis.call('ZSCORE', ready, rank)
    local is_later = rest > 0 and rank and not score and redis.call('ZSCORE', delayed, rank)
    before[group] = (score or is_later) and {rank, score} or nil
end

function open(group)
    local was = before[group]
    before[group] = nil
    local ends = rest > 0 and rests_until(group) or 0
    local first = rest > 0 and waiting(group, 0, 1)[1]
    local later = first and rank_in(first, group)
    if later and redis.call('ZSCORE', delayed, later) then
        return  -- it waits for the end of the rest already
    end
    local rank, has_to_wait = next_of(group)
    if was and was[1] ~= rank then
        redis.call('ZREM', ready, was[1])
        redis.call('ZREM', delayed, was[1])
    end
    if ends > now then
        if later then
            resumes = math.min(resumes, math.ceil(ends))
            redis.call('ZADD', delayed, string.format('%.0f', math.ceil(ends)), later)
        end
        return
    end
    if has_to_wait then
        redis.call('ZADD', groups, '0', mark_of(group))
    elseif rank then
        if keeps_places then
            redis.call('ZREM', groups, mark_of(group))
        end
        turn = turn or tonumber(redis.call('HGET', queue, 'turn') or 0)
        local score = was and was[2] or as_text(turn + step_of(group))
        opened = opened + redis.call('ZADD', ready, 'NX', score, rank)
    end
end

-- ends: when the delay of a message ends that comes from another store, ''; with the rest of its
-- group it waits for its turn.
local add = verbs.add
function verbs.add(rank, tail, is_delayed, ends)
    if is_delayed and ends and rest > 0 then
        local record = record_of(tail)
        local group = record and string.sub(record, 4) or ''
        is_delayed = math.ceil(rests_until(group)) ~= tonumber(ends)
    end
    return add(rank, tail, is_delayed)
end

-- Let messages, which are not in `ready`, wait in their groups, or hold a place in them.
local function place_as(state, ranks)
    local changed, gone, come = {}, {}, {}
    for place, group in ipairs(verbs.groups_of(ranks)) do
        if not changed[group] then
            close(group)
            changed[group] = true
        end
        gone[#gone + 1] = entry(state == 'w' and 'h' or 'w', group, ranks[place])
        if state == 'w' or keeps_places then
            come[#come + 1], come[#come + 2] = '0', entry(state, group, ranks[place])
        end
    end
    redis.call('ZREM', groups, unpack(gone))
    if #come > 0 then
        redis.call('ZADD', groups, unpack(come))
    end
    open_all(changed)
end

function verbs.free(ranks)
    local count = opened
    place_as('w', ranks)
    opened = count
end

function verbs.hold(ranks)
    place_as('h', ranks)
end

-- What can be taken of the first `size` messages in `ready`: one message of each group in turn.
function verbs.expand(size, room)
    local page = redis.call('ZRANGE', ready, 0, size - 1, 'WITHSCORES')
    if #page == 0 then
        return page
    end
    local heads, found = {}, {}
    for place = 1, #page / 2 do
        found[place] = page[2 * place - 1]
    end
    local is_all = #found < size  -- no other group has a turn
    local share = math.ceil(room / #found) + 1  -- mostly as many as are needed
    local share_text = string.format('%.0f', share)  -- Redis is slow to write numbers
    for place, group in ipairs(verbs.groups_of(found)) do
        heads[place] = {turn = tonumber(page[2 * place]), rank = page[2 * place - 1], group = group,
            place = 1, left = math.huge}
    end
    local ranks, again, at, marks = {}, {}, 1, {}
    local function precedes(one, other)
        return one.turn < other.turn or one.turn == other.turn and one.rank < other.rank
    end
    while #ranks < room do
        local head = heads[at]
        if again[1] and (head and precedes(again[1], head) or not head and is_all) then
            head = table.remove(again, 1)
        elseif head then
            at = at + 1
            if keeps_places then
                -- Mostly one look tells that none is held, and what waits.
                local first = rest == 0 and first_of(head.group, share_text) or {}
                local waits = first[1] and string.sub(first[1], #head.group + 2, #head.group + 2)
                head.waiting = waits == 'w' and first
                head.left = most - (head.waiting and 0 or held_of(head.group))
            end
        else
            break
        end
        local group = head.group
        ranks[#ranks + 1] = head.rank
        group_of[head.rank] = group
        turn = head.turn
        head.left = head.left - 1
        local place = head.place % share + 1
        if head.left > 0 and (place == 1 or not head.waiting) then
            head.waiting = waiting(group, place == 1 and head.place or '0', share_text)
        end
        if head.left <= 0 then
            marks[#marks + 1], marks[#marks + 2] = '0', mark_of(group)
        end
        local following = head.left > 0 and head.waiting[place]
        if rest >= 1 then
            local next_one = following or waiting(group, 1, 1)[1]
            begin_rest(group, next_one and rank_in(next_one, group))
        elseif following then
            head.step = head.step or step_of(group)
            head.turn, head.rank = turn + head.step, rank_in(following, group)
            head.place = head.place + 1
            local behind = #again
            while behind > 0 and precedes(head, again[behind]) do
                behind = behind - 1
            end
            table.insert(again, behind + 1, head)
        end
    end
    if #marks > 0 then
        redis.call('ZADD', groups, unpack(marks))
    end
    if rest > 0 then
        forget_rests(2 * #ranks)
    end
    redis.call('HSET', queue, 'turn', as_text(turn))
    local turns = {}
    for place, head in ipairs(again) do
        turns[2 * place - 1], turns[2 * place] = as_text(head.turn), head.rank
    end
    if #turns > 0 then
        redis.call('ZADD', ready, unpack(turns))
    end
    return ranks
end

-- Take messages, which are not in `ready`, out of their groups.
function verbs.leave(ranks)
    local found = verbs.groups_of(ranks)
    local were_held = keeps_places and remove('h', ranks, found) or 0
    local waited = were_held < #ranks and remove('w', ranks, found) or 0
    local has_marks = redis.call('ZRANGEBYLEX', groups, '[\1', '(\2', 'LIMIT', '0', '1')[1]
    local known = {}
    for _, group in ipairs((waited > 0 or has_marks) and found or {}) do
        if not known[group] then
            known[group] = true
            local was_marked = has_marks and redis.call('ZREM', groups, mark_of(group)) == 1
            if waited > 0 or was_marked then
                open(group)
            end
        end
    end
end

-- What comes back later, or is moved to another queue, is not in flight.
verbs.defer, verbs.hold_to_move = verbs.leave, verbs.leave

-- Count messages, which are claimed, among those of their groups that are held.
function verbs.count_held(ranks)
    local come = {}
    for place, group in ipairs(verbs.groups_of(ranks)) do
        come[2 * place - 1], come[2 * place] = '0', entry('h', group, ranks[place])
    end
    redis.call('ZADD', groups, unpack(come))
end

-- Give turns to groups that wait, a bounded number, as more of each may be held or taken now.
function verbs.reopen()
    local LIMIT = 1000  -- the others when a message of theirs goes, or their rest ends
    local later = '(\2' .. string.format('%017.3f', now + rest)
    for _, noted in ipairs(redis.call('ZREVRANGEBYLEX', groups, '(\3', later, 'LIMIT', 0, LIMIT)) do
        local group = string.sub(noted, 19)
        forget_rest(noted)
        if rest >= 1 then
            note_rest(group, now + rest)
        end
        local first = waiting(group, 0, 1)[1]
        if first then
            redis.call('ZREM', delayed, rank_in(first, group))
            open(group)
        end
    end
    for _, mark in ipairs(redis.call('ZRANGEBYLEX', groups, '[\1', '(\2', 'LIMIT', 0, LIMIT)) do
        redis.call('ZREM', groups, mark)
        open(string.sub(mark, 2))
    end
end
