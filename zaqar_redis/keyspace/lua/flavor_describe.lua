-- Note what a flavor can do; one that does not exist is created, without pools.
--#keys flavors version news
--#args name about most:number

if redis.call('HEXISTS', flavors, name) == 0 and redis.call('HLEN', flavors) >= most then
    return 'many'
end
redis.call('HSET', flavors, name, about)
redis.call('INCR', version)
redis.call('PUBLISH', news, 'pools')
return 'done'
