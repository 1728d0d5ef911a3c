-- Add pending tasks where their ids belong, all of them, or none if one of the ids is there: what most adds are, and
-- already in the form of the commands that write them.
-- message: {part, ids, tasks, open, due}, ...; the last three are what HSET, ZADD and ZADD take
-- answer:  whether they were added
for _, group in ipairs(message) do
  local part, ids = group[1], group[2]
  for _, what in ipairs({'tasks', 'where', 'held'}) do
    if redis.call('EXISTS', key(part, what)) == 1 then
      for _, there in ipairs(batch('HMGET', key(part, what), ids)) do
        if there then
          return 0
        end
      end
    end
  end
end
for _, group in ipairs(message) do
  local part = group[1]
  batch('HSET', key(part, 'tasks'), group[3])
  batch('ZADD', key(part, 'open'), group[4])
  batch('ZADD', key(part, 'due'), group[5])
end
return 1
