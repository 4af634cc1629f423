-- Check that every entry about a message is about one that the queue has.
--
-- A body without its message is one that was posted and got lost: it is restored. All
-- other entries are removed. Returns {where to go on or '0', {what, how often; of each finding}}.
local messages  = KEYS[1]            -- zset: every message by rank
local bodies    = KEYS[2]            -- hash: rank -> envelope
local ready     = KEYS[3]            -- zset: claimable by rank
local claimed   = KEYS[4]            -- zset: held, by the end of the hold
local delayed   = KEYS[5]            -- zset: delayed, by the end of the delay
local expiry    = KEYS[6]            -- zset: every message by expiry
local holds     = KEYS[7]            -- hash: rank -> last claim and count
local move_lock = KEYS[8]            -- string: the move lock, while the queue moves
local which     = ARGV[1]            -- name of one of these keys
local cursor    = ARGV[2]            -- '0' at first
local limit     = tonumber(ARGV[3])  -- members to look at, about
local repair    = ARGV[4]            -- '1': repair it
--#include move_lock
--#include envelope
--#include valid_envelope
--#include findings

local hash = ({bodies = bodies, holds = holds})[which]
local zset = ({ready = ready, claimed = claimed, delayed = delayed, expiry = expiry})[which]

local function restore(rank, envelope)
    if not is_valid_envelope(envelope) or not tonumber(rank) then
        note('envelope')
        return
    end
    note('message')
    if repair ~= '1' then
        return
    end
    redis.call('ZADD', messages, rank, rank)
    redis.call('ZADD', expiry, string.format('%.0f', expiry_of(envelope)), rank)
    if not (redis.call('ZSCORE', claimed, rank) or redis.call('ZSCORE', delayed, rank)) then
        redis.call('ZADD', ready, rank, rank)
    end
end

local page = hash and redis.call('HSCAN', hash, cursor, 'COUNT', limit)
    or redis.call('ZSCAN', zset, cursor, 'COUNT', limit)
for at = 1, #page[2], 2 do
    local rank = page[2][at]
    if not redis.call('ZSCORE', messages, rank) then
        if which == 'bodies' then
            restore(rank, page[2][at + 1])
        else
            note('stray')
            if repair == '1' and hash then
                redis.call('HDEL', hash, rank)
            elseif repair == '1' then
                redis.call('ZREM', zset, rank)
            end
        end
    end
end
return {page[1], findings()}
