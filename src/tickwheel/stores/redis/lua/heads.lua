-- Read the headers of tasks.
-- message: {part, ids}, ...
-- answer:  for each id its header; nil for what is not there
local answer = {}
for _, asked in ipairs(message) do
  for _, value in ipairs(batch('HMGET', key(asked[1], 'tasks'), asked[2])) do
    answer[#answer + 1] = value and header_of(value)
  end
end
return answer
