-- Make the store, if it is not there.
-- message: schema version, number of partitions
-- answer:  the schema version and number of partitions that it has
local meta = '{' .. name .. '}:meta'
if redis.call('EXISTS', meta) == 0 then
  redis.call('HSET', meta, 'schema', message[1], 'partitions', message[2])
end
return redis.call('HMGET', meta, 'schema', 'partitions')
