-- List the leases that are held now.
-- message: partitions
-- answer:  partition, node, epoch, end and checkpoint of each
local answer = {}
for _, part in ipairs(message) do
  local there = redis.call('HMGET', key(part, 'lease'), 'node', 'epoch', 'ends_at', 'checkpoint')
  if there[3] and now < tonumber(there[3]) then
    answer[#answer + 1] = {part, there[1], tonumber(there[2]), tonumber(there[3]), tonumber(there[4] or 0)}
  end
end
return answer
