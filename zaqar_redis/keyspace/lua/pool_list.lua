-- Read all pools: {version, {name, pool as stored; of each, in no order}}.
--#keys pools version

return {redis.call('GET', version), redis.call('HGETALL', pools)}
