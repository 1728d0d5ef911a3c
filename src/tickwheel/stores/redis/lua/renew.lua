-- Hold on to leases.
-- message: leases, for how long
-- answer:  partition, epoch, nonce, end and checkpoint of each that is ours still
local leases, ttl_ms = unpack(message)
local answer = {}
for _, lease in ipairs(leases) do
  if holds(lease) then
    redis.call('HSET', key(lease[1], 'lease'), 'ends_at', now + ttl_ms)
    local checkpoint = redis.call('HGET', key(lease[1], 'lease'), 'checkpoint')
    answer[#answer + 1] = {lease[1], lease[2], lease[3], now + ttl_ms, tonumber(checkpoint or 0)}
  end
end
return answer
