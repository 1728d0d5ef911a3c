-- Say that a node lives, or lives no more; those whose time is over are forgotten.
-- message: node, for how long; 0 is no more
-- answer:  all that live
local nodes = '{' .. name .. '}:nodes'
local node, ttl_ms = unpack(message)
if ttl_ms > 0 then
  redis.call('ZADD', nodes, now + ttl_ms, node)
else
  redis.call('ZREM', nodes, node)
end
redis.call('ZREMRANGEBYSCORE', nodes, '-inf', now)
return redis.call('ZRANGE', nodes, 0, -1)
