-- Ids by the order of arrival, so many of each shelf of each partition.
-- message: partitions, shelves, 'newest' or 'oldest', the serial beyond which it begins, how many of each
-- answer:  serial, partition, shelf and id of each
local parts, shelves, order, serial, limit = unpack(message)
local beyond = '(' .. string.format('%.17g', serial)
local answer = {}
for _, part in ipairs(parts) do
  for _, shelf in ipairs(shelves) do
    local found
    if order == 'newest' then
      found = redis.call('ZREVRANGEBYSCORE', key(part, shelf), beyond, '-inf', 'WITHSCORES', 'LIMIT', 0, limit)
    else
      found = redis.call('ZRANGEBYSCORE', key(part, shelf), beyond, '+inf', 'WITHSCORES', 'LIMIT', 0, limit)
    end
    for number = 1, #found, 2 do
      answer[#answer + 1] = found[number + 1]
      answer[#answer + 1] = part
      answer[#answer + 1] = shelf
      answer[#answer + 1] = found[number]
    end
  end
end
return answer
