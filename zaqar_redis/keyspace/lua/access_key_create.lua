-- Store a new access key.
--
-- Returns 1, or 0 when there are so many already.
--#flags deny-oom
--#keys access_key access_keys
--#args id most:number grants secret disabled used
-- used: ms, or '0'

if redis.call('ZCARD', access_keys) >= most then
    return 0
end
redis.call('HSET', access_key,
    'grants', grants, 'secret', secret, 'disabled', disabled, 'used', used)
redis.call('ZADD', access_keys, 0, id)
return 1
