-- The runs of a task, latest first.
-- message: partition, id, how many
return redis.call('ZREVRANGE', key(message[1], 'runs:' .. message[2]), 0, message[3] - 1)
