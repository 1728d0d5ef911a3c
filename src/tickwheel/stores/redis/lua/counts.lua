-- Count the tasks of each status.
-- message: partitions
local counted = {0, 0, 0, 0, 0, 0}
for _, part in ipairs(message) do
  counted[1] = counted[1] + redis.call('ZCARD', key(part, 'due'))
  counted[2] = counted[2] + redis.call('ZCARD', key(part, 'paused'))
  counted[3] = counted[3] + redis.call('HLEN', key(part, 'running'))
  counted[4] = counted[4] + redis.call('ZCARD', key(part, 'completed'))
  counted[5] = counted[5] + redis.call('ZCARD', key(part, 'failed'))
  counted[6] = counted[6] + redis.call('ZCARD', key(part, 'cancelled'))
end
return counted
