-- Delete what was over before a moment, so many tasks and so many runs at most.
-- message: partitions, moment, how many
-- answer:  the number of runs that were deleted, then partition and id of each task
local parts, moment, limit = unpack(message)
local before = '(' .. string.format('%.17g', moment)
local answer = {0}
for _, part in ipairs(parts) do
  local left = limit - (#answer - 1) / 2
  local gone = left > 0 and redis.call('ZRANGEBYSCORE', key(part, 'ended'), '-inf', before, 'LIMIT', 0, left) or {}
  for _, id in ipairs(gone) do
    redis.call('ZREM', key(part, 'ended'), id)
    for _, shelf in ipairs({'completed', 'failed', 'cancelled'}) do
      redis.call('ZREM', key(part, shelf), id)
    end
    redis.call('HDEL', key(part, 'tasks'), id)
    redis.call('DEL', key(part, 'runs:' .. id))
    answer[#answer + 1] = part
    answer[#answer + 1] = id
  end
  left = limit - answer[1]
  local ran = left > 0 and redis.call('ZRANGEBYSCORE', key(part, 'ran'), '-inf', before, 'LIMIT', 0, left) or {}
  for _, run in ipairs(ran) do
    local id, attempt = string.match(run, '^(.*)%z(%d+)$')
    redis.call('ZREM', key(part, 'ran'), run)
    redis.call('ZREMRANGEBYSCORE', key(part, 'runs:' .. id), attempt, attempt)
  end
  answer[1] = answer[1] + #ran
end
return answer
