-- Read messages by rank while the queue is in use: rank, envelope; of each.
local messages = KEYS[1]            -- zset: every message by rank
local bodies   = KEYS[2]            -- hash: rank -> envelope
local after    = ARGV[1]            -- rank to go on behind
local limit    = tonumber(ARGV[2])  -- messages at most

local ranks = redis.call('ZRANGEBYSCORE', messages, '(' .. after, '+inf', 'LIMIT', 0, limit)
if #ranks == 0 then
    return {}
end
local page = {}
for place, envelope in ipairs(redis.call('HMGET', bodies, unpack(ranks))) do
    page[2 * place - 1], page[2 * place] = ranks[place], envelope
end
return page
