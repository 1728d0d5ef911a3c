-- All that runs: as many as the nodes have in flight.
-- message: leases, or partitions {part}; of leases, what runs under an earlier one
-- answer:  serial, partition and id of each
local answer = {}
for _, lease in ipairs(message) do
  local part, epoch = lease[1], lease[2]
  local marks = (not epoch or holds(lease)) and redis.call('HGETALL', key(part, 'running')) or {}
  for number = 1, #marks, 2 do
    local id = marks[number]
    if not epoch or tonumber(string.match(marks[number + 1], '^%d+')) < epoch then
      answer[#answer + 1] = redis.call('ZSCORE', key(part, 'open'), id)
      answer[#answer + 1] = part
      answer[#answer + 1] = id
    end
  end
end
return answer
