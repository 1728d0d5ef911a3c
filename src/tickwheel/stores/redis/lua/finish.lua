-- Put finished tasks back, those that are as they were claimed.
-- message: {lease, finishes}, ...; a finish is {id, header before but for the serial, header after but for the serial,
--          body, status, moment, attempt of the run, when that was over, both and the run}; numbers but for the status
--          are text, as that is what they are written as; '' is no run
-- answer:  1 for each that was put back, 0 for each that was not
local answer, count = {}, 0
for _, group in ipairs(message) do
  local lease, finishes = group[1], group[2]
  local part = lease[1]
  local ids = {}
  for number, finish in ipairs(finishes) do
    ids[number] = finish[1]
  end
  local ours = holds(lease)
  local values = ours and batch('HMGET', key(part, 'tasks'), ids)
  local marks = ours and batch('HMGET', key(part, 'running'), ids)
  local lasts = ours and batch('HMGET', key(part, 'last'), ids)
  local over = {}
  for number, finish in ipairs(finishes) do
    count = count + 1
    local id, before, after, body, status, moment, attempt, ran_at, run = unpack(finish)
    local value = ours and marks[number] and not over[id] and values[number]
    if value and string.sub(value, 1, #before) == before then
      local serial = string.match(value, '^%d+', #before + 1)
      shelve(part, id, RUNNING, status, serial, moment)
      later('HSET', key(part, 'tasks'), id, after .. serial .. '\n' .. body)
      if run ~= '' then
        if lasts[number] then
          redis.call('RPUSH', key(part, 'runs:' .. id), lasts[number])
        end
        later('HSET', key(part, 'last'), id, run)
        if status < OVER or ran_at ~= moment then
          later('ZADD', key(part, 'ran'), ran_at, id .. '\0' .. attempt)
        end
      end
      over[id] = true
      answer[count] = 1
    else
      answer[count] = 0
    end
  end
end
write_all()
return answer
