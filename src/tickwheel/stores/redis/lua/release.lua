-- Give leases back.
-- message: leases
-- answer:  the partitions that are free now
local answer = {}
for _, lease in ipairs(message) do
  if holds(lease) then
    redis.call('HSET', key(lease[1], 'lease'), 'node', '', 'nonce', '', 'ends_at', 0)
    answer[#answer + 1] = lease[1]
  end
end
return answer
