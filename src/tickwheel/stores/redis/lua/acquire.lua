-- Take leases that nobody holds.
-- message: partitions, a nonce for each, node, for how long
-- answer:  partition, epoch, nonce, end and checkpoint of each that was got
local parts, nonces, node, ttl_ms = unpack(message)
local answer = {}
for number, part in ipairs(parts) do
  local lease = key(part, 'lease')
  local there = redis.call('HMGET', lease, 'ends_at', 'checkpoint')
  if not there[1] or tonumber(there[1]) <= now then
    local epoch = redis.call('HINCRBY', lease, 'epoch', 1)
    redis.call('HSET', lease, 'node', node, 'nonce', nonces[number], 'ends_at', now + ttl_ms)
    answer[#answer + 1] = {part, epoch, nonces[number], now + ttl_ms, tonumber(there[2] or 0)}
  end
end
return answer
