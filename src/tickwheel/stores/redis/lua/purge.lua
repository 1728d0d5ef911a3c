-- Delete what was over before a moment, so many tasks and so many runs at most.
-- message: partitions, moment, how many
-- answer:  the number of runs that were deleted, then partition and id of each task
local parts, moment, limit = unpack(message)
local before = '(' .. string.format('%.17g', moment)

local function attempt_of(run)
  return string.match(run or '', '^%d+') or ''
end

-- Delete the runs of some attempts at a task; almost always they are the first ones, and the last one stays.
local function forget_runs(part, id, attempts)
  local runs = key(part, 'runs:' .. id)
  while attempts[attempt_of(redis.call('LINDEX', runs, 0) or '')] do
    attempts[attempt_of(redis.call('LPOP', runs))] = nil
  end
  if next(attempts) == nil then
    return
  end
  for _, run in ipairs(redis.call('LRANGE', runs, 0, -1)) do
    if attempts[attempt_of(run)] then
      redis.call('LREM', runs, 1, run)
    end
  end
  if attempts[attempt_of(redis.call('HGET', key(part, 'last'), id) or '')] then
    local previous = redis.call('RPOP', runs)
    if previous then
      redis.call('HSET', key(part, 'last'), id, previous)
    else
      redis.call('HDEL', key(part, 'last'), id)
    end
  end
end

local answer = {0}
for _, part in ipairs(parts) do
  local left = limit - (#answer - 1) / 2
  local gone = left > 0 and redis.call('ZRANGEBYSCORE', key(part, 'ended'), '-inf', before, 'LIMIT', 0, left) or {}
  for _, what in ipairs(#gone > 0 and {'ended', 'completed', 'failed', 'cancelled'} or {}) do
    batch('ZREM', key(part, what), gone)
  end
  batch('HDEL', key(part, 'tasks'), gone)
  batch('HDEL', key(part, 'last'), gone)
  for _, id in ipairs(gone) do
    redis.call('DEL', key(part, 'runs:' .. id))
    answer[#answer + 1] = part
    answer[#answer + 1] = id
  end
  left = limit - answer[1]
  local ran = left > 0 and redis.call('ZRANGEBYSCORE', key(part, 'ran'), '-inf', before, 'LIMIT', 0, left) or {}
  local attempts = {}
  for _, run in ipairs(ran) do
    local id, attempt = string.match(run, '^(.*)%z(%d+)$')
    attempts[id] = attempts[id] or {}
    attempts[id][attempt] = true
  end
  batch('ZREM', key(part, 'ran'), ran)
  for id, each in pairs(attempts) do
    forget_runs(part, id, each)
  end
  answer[1] = answer[1] + #ran
end
return answer
