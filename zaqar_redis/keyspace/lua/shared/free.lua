-- Make messages claimable that no claim holds and no delay hides any more.
local function free(ranks)
    local verbs = ordered()
    if verbs then
        verbs.free(ranks)
        return
    end
    local by_rank = {}
    for place, rank in ipairs(ranks) do
        by_rank[2 * place - 1], by_rank[2 * place] = rank, rank
    end
    redis.call('ZADD', ready, unpack(by_rank))
end
