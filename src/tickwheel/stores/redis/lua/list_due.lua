-- What is pending, by time, so many of each partition.
-- message: partitions, the moment and id beyond which it begins, until when, how many of each
-- answer:  time, partition and id of each
local parts, moment, id, last, limit = unpack(message)
local answer = {}
for _, part in ipairs(parts) do
  local found = soon(part, moment, id, last, limit)
  for number = 1, #found, 2 do
    answer[#answer + 1] = found[number + 1]
    answer[#answer + 1] = part
    answer[#answer + 1] = found[number]
  end
end
return answer
