-- Read one generation of records: {where to go on or '0', {name, record; of each}}.
--#keys records move_lock
--#args token lease:number cursor limit:number
--#include source_lock

return redis.call('HSCAN', records, cursor, 'COUNT', limit)
