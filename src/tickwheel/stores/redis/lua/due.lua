-- What comes due in owned partitions, so many of each.
-- message: leases, until when, the moment and id beyond which it begins, how many of each
-- answer:  time, id and partition of each
local leases, last, moment, id, limit = unpack(message)
local answer, count = {}, 0
for _, lease in ipairs(leases) do
  local part = lease[1]
  local found = holds(lease) and soon(part, moment, id, last, limit) or {}
  for number = 1, #found, 2 do
    answer[count + 1] = found[number + 1]
    answer[count + 2] = found[number]
    answer[count + 3] = part
    count = count + 3
  end
end
return answer
