-- Read tasks.
-- message: {part, ids}, ...
-- answer:  for each id its value, its running mark, and the partition that it is in instead; nil for what is not there
local answer = {}
for _, asked in ipairs(message) do
  local part, ids = asked[1], asked[2]
  local values = batch('HMGET', key(part, 'tasks'), ids)
  local marks = redis.call('EXISTS', key(part, 'running')) == 1 and batch('HMGET', key(part, 'running'), ids) or {}
  local places = redis.call('EXISTS', key(part, 'where')) == 1 and batch('HMGET', key(part, 'where'), ids) or {}
  for number = 1, #ids do
    answer[#answer + 1] = values[number]
    answer[#answer + 1] = marks[number] or false
    answer[#answer + 1] = places[number] or false
  end
end
return answer
