-- The runs of a task, latest first.
-- message: partition, id, how many
local part, id, limit = unpack(message)
local answer = {redis.call('HGET', key(part, 'last'), id) or nil}
local before = limit > 1 and redis.call('LRANGE', key(part, 'runs:' .. id), 1 - limit, -1) or {}
for number = #before, 1, -1 do
  answer[#answer + 1] = before[number]
end
for number, run in ipairs(answer) do
  answer[number] = string.match(run, '^%d+ %d+ (.*)$')
end
return answer
