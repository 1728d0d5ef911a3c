-- Put finished tasks back, those that are as they were claimed.
-- message: leases, {lease number, id, header before but for the serial, header after but for the serial, body,
--          status, moment, attempt of the run, when that was over, run}, ...; '' is no run
-- answer:  1 for each that was put back, 0 for each that was not
local leases, finishes = unpack(message)
local ours = {}
for number, lease in ipairs(leases) do
  ours[number] = holds(lease)
end

local answer = {}
for number, finish in ipairs(finishes) do
  local lease, id, before, after, body, status, moment, attempt, ran_at, run = unpack(finish)
  local part = leases[lease][1]
  local value = ours[lease] and redis.call('HEXISTS', key(part, 'running'), id) == 1
    and redis.call('HGET', key(part, 'tasks'), id)
  answer[number] = 0
  if value and string.sub(value, 1, #before) == before then
    local serial = string.match(value, '^%d+', #before + 1)
    shelve(part, id, RUNNING, status, serial, moment)
    redis.call('HSET', key(part, 'tasks'), id, after .. serial .. '\n' .. body)
    if run ~= '' then
      redis.call('ZREMRANGEBYSCORE', key(part, 'runs:' .. id), attempt, attempt)
      redis.call('ZADD', key(part, 'runs:' .. id), attempt, run)
      redis.call('ZADD', key(part, 'ran'), ran_at, id .. '\0' .. attempt)
    end
    answer[number] = 1
  end
end
return answer
