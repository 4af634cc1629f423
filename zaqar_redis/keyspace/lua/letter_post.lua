-- Append dead letters to the queue that they came from, but those that it has had.
--
-- Returns {'missing'} when there is no such queue, else {'posted', how many it had not,
-- not yet listed}.
local queue    = KEYS[1]            -- hash: the queue itself
local messages = KEYS[2]            -- zset: every message by rank
local bodies   = KEYS[3]            -- hash: rank -> envelope
local ready    = KEYS[4]            -- zset: claimable by rank
local delayed  = KEYS[5]            -- zset: delayed, by the end of the delay
local expiry   = KEYS[6]            -- zset: every message by expiry
local receipts = KEYS[7]            -- hash: retry token -> the answer given
local lapses   = KEYS[8]            -- zset: retry tokens by the time they are forgotten
local gate     = KEYS[9]            -- string: keeps everybody out while it is there
local due      = KEYS[10]           -- zset: queues of the slot by when one is due
local now      = tonumber(ARGV[1])  -- ms; 0: the time of Redis
local window   = tonumber(ARGV[2])  -- ms to keep the receipts
-- ARGV[3...]: token, ttl, rest of the envelope; for each message
--#include gate
--#include now
--#include envelope
--#include receipts
--#include known

if not known[1] then
    return {'missing'}
end
forget_receipts()
local values, tokens, skip, default_ttl = {}, {}, 0, 0
for at = 3, #ARGV, 3 do
    local token = ARGV[at]
    local kept = redis.call('HGET', receipts, token)
    local life = kept and string.match(kept, '^%x+')
    if life ~= known[1] or tonumber(redis.call('ZSCORE', lapses, token)) <= now then
        tokens[#tokens + 1] = token
        values[#values + 1] = ARGV[at + 1]
        values[#values + 1] = 0
        values[#values + 1] = ARGV[at + 2]
    end
end
if #tokens == 0 then
    return {'posted', 0, redis.call('HEXISTS', queue, 'unlisted')}
end
--#include append
for place, token in ipairs(tokens) do
    local answer = known[1] .. ' 00 ' .. string.format('%.0f 1', first + place - 1)
    redis.call('HSET', receipts, token, answer)
    redis.call('ZADD', lapses, now + window, token)
end
soonest = math.min(soonest, now + window)
--#include due
return {'posted', count, unlisted}
