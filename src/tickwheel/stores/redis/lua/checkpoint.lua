-- Note how far owned partitions are.
-- message: leases, moment
for _, lease in ipairs(message[1]) do
  if holds(lease) then
    redis.call('HSET', key(lease[1], 'lease'), 'checkpoint', message[2])
  end
end
return 0
