-- What comes due in owned partitions, so many of each.
-- message: leases, until when, the moment and id beyond which it begins, how many of each
-- answer:  time, id, partition and header of each
local leases, last, moment, id, limit = unpack(message)
local answer = {}
for _, lease in ipairs(leases) do
  local part = lease[1]
  local found = holds(lease) and soon(part, moment, id, last, limit) or {}
  local ids = {}
  for number = 1, #found, 2 do
    ids[#ids + 1] = found[number]
  end
  local values = #ids > 0 and batch('HMGET', key(part, 'tasks'), ids) or {}
  for number, each in ipairs(ids) do
    answer[#answer + 1] = found[2 * number]
    answer[#answer + 1] = each
    answer[#answer + 1] = part
    answer[#answer + 1] = header_of(values[number])
  end
end
return answer
